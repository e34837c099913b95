#include "base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct item {
	int value;
	struct list node;
};

static int list_digits(const struct list *head)
{
	int digits = 0, back = 0, scale = 1;
	list_for_each((struct list *)head, node) digits = digits * 10 + container_of(node, struct item, node)->value;
	for (const struct list *node = head->prev; node != head; node = node->prev, scale *= 10)
		back += container_of(node, struct item, node)->value * scale;
	assert_int_equal(digits, back);
	return digits;
}

static void lists_keep_order_both_ways(void **state)
{
	struct list head;
	struct item items[4] = {{1}, {2}, {3}, {4}};
	list_init(&head);
	assert_true(list_is_empty(&head));
	list_push_back(&head, &items[1].node);
	list_push_back(&head, &items[2].node);
	list_push_front(&head, &items[0].node);
	list_insert_before(&items[2].node, &items[3].node);
	assert_int_equal(list_digits(&head), 1243);
	list_remove(&items[3].node);
	assert_true(list_is_empty(&items[3].node));
	list_remove(&items[3].node); /* a second time changes nothing */
	assert_int_equal(list_digits(&head), 123);
	list_for_each_safe(&head, node, keep) list_remove(node);
	assert_true(list_is_empty(&head));
}

static void text_grows(void **state)
{
	struct text t = {0};
	assert_null(t.bytes);
	text_addf(&t, "%s", "");
	assert_string_equal(t.bytes, "");
	char expected[8000] = "";
	size_t length = 0;
	for (int i = 0; i < 1000; i++) {
		text_addf(&t, "%d,", i);
		length += (size_t)snprintf(expected + length, sizeof(expected) - length, "%d,", i);
	}
	assert_int_equal(t.length, length);
	assert_string_equal(t.bytes, expected);
	text_addf(&t, "%4000s|%s", "x", expected);
	assert_int_equal(t.length, length + 4001 + length);
	assert_int_equal(strlen(t.bytes), t.length);
	assert_false(t.failed);
	text_release(&t);
	assert_null(t.bytes);
	text_release(&t);
}

static void every_length_fits(void **state)
{
	for (int width = 1; width < 600; width++) {
		struct text t = {0};
		text_addf(&t, "%*d", width, 7);
		text_addf(&t, "%*d", width, 8);
		assert_int_equal(t.length, 2 * width);
		assert_int_equal(t.bytes[width - 1], '7');
		assert_int_equal(t.bytes[2 * width - 1], '8');
		text_release(&t);
	}
}

static void byte_order_is_little_endian(void **state)
{
	uint8_t p[9] = {0};
	put_le64(p + 1, UINT64_C(0x0102030405060708));
	assert_memory_equal(p, "\x00\x08\x07\x06\x05\x04\x03\x02\x01", 9);
	assert_true(get_le64(p + 1) == UINT64_C(0x0102030405060708));
	assert_true(get_le32(p + 1) == 0x05060708u);
	assert_true(get_le16(p + 1) == 0x0708u);
	put_le32(p, 0xfffefdfcu);
	assert_true(get_le32(p) == 0xfffefdfcu && p[4] == 0x05);
	put_le16(p, 0xffffu);
	assert_true(get_le16(p) == 0xffffu && p[2] == 0xfe);
}

static void rounding(void **state)
{
	assert_int_equal(round_up_u64(0, 4096), 0);
	assert_int_equal(round_up_u64(1, 4096), 4096);
	assert_int_equal(round_up_u64(4096, 4096), 4096);
	assert_int_equal(round_up_u64(10, 3), 12);
	assert_int_equal(round_down_u64(4095, 4096), 0);
	assert_int_equal(round_down_u64(11, 3), 9);
	assert_true(is_power_of_two(1) && is_power_of_two(UINT64_C(1) << 63));
	assert_false(is_power_of_two(0) || is_power_of_two(6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_keep_order_both_ways),
		cmocka_unit_test(text_grows),
		cmocka_unit_test(every_length_fits),
		cmocka_unit_test(byte_order_is_little_endian),
		cmocka_unit_test(rounding),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
