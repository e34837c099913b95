#include "base.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void the_first_sentence_stays(void **state)
{
	struct error err = ERROR_INIT;
	assert_int_equal(error_set(&err, ERR_IO, "disk %s, offset %d", "sdb", 4096), ERR_IO);
	assert_int_equal(err.code, ERR_IO);
	assert_string_equal(err.text, "disk sdb, offset 4096");
	assert_int_equal(error_set(&err, ERR_LOST, "another"), ERR_LOST);
	assert_int_equal(err.code, ERR_IO);
	assert_string_equal(err.text, "disk sdb, offset 4096");
	error_clear(&err);
	assert_int_equal(err.code, 0);
	assert_string_equal(err.text, "");
	error_set(&err, ERR_LOST, "another");
	assert_string_equal(err.text, "another");
}

static void no_object_is_fine(void **state)
{
	assert_int_equal(error_set(NULL, ERR_BUSY, "nobody reads this"), ERR_BUSY);
	error_prefix(NULL, "nor this");
	error_clear(NULL);
}

static void a_prefix_goes_before(void **state)
{
	struct error err = ERROR_INIT;
	error_prefix(&err, "nothing failed");
	assert_int_equal(err.code, 0);
	assert_string_equal(err.text, "");
	error_set(&err, ERR_IO, "cause");
	error_prefix(&err, "array %s", "tank");
	error_prefix(&err, "status");
	assert_string_equal(err.text, "status: array tank: cause");
}

static void long_sentences_are_cut_and_terminated(void **state)
{
	char word[3 * ERROR_TEXT_BYTES];
	memset(word, 'x', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	struct error err = ERROR_INIT;
	error_set(&err, ERR_IO, "%s", word);
	assert_int_equal(strlen(err.text), ERROR_TEXT_BYTES - 1);
	error_prefix(&err, "tank");
	assert_int_equal(strlen(err.text), ERROR_TEXT_BYTES - 1);
	assert_memory_equal(err.text, "tank: xx", 8);
	error_prefix(&err, "%s", word);
	assert_int_equal(strlen(err.text), ERROR_TEXT_BYTES - 1);
}

static void every_code_has_name_sentence_and_status(void **state)
{
	for (int code = ERR_BUG; code <= ERR_MEMORY; code++) {
		assert_memory_equal(error_name(code), "ERR_", 4);
		assert_string_not_equal(error_name(code), "ERR_UNKNOWN");
		assert_true(strlen(error_sentence(code)) > 5);
		int status = error_exit_status(code);
		assert_true(status == 1 || status == 2 || (status == 130 && code == ERR_INTERRUPTED));
	}
	assert_int_equal(error_exit_status(0), 0);
	assert_int_equal(error_exit_status(-1000), 1);
	assert_int_equal(error_exit_status(ERR_USAGE), 2);
	assert_string_equal(error_name(-1000), "ERR_UNKNOWN");
}

static void errno_maps_to_our_codes(void **state)
{
	static const struct {
		int value, code;
	} expected[] = {
		{0, 0},
		{EIO, ERR_IO},
		{ENODEV, ERR_GONE},
		{ENXIO, ERR_GONE},
		{ENOSPC, ERR_SPACE},
		{ENODATA, ERR_MEDIA},
		{EILSEQ, ERR_CORRUPT},
		{ENOMEM, ERR_MEMORY},
		{ENOENT, ERR_NOT_FOUND},
		{EBUSY, ERR_BUSY},
		{EROFS, ERR_READ_ONLY},
		{ETIMEDOUT, ERR_TIMEOUT},
		{EINVAL, ERR_UNSUPPORTED},
		{EINTR, ERR_INTERRUPTED},
		{12345, ERR_IO},
	};
	for (size_t i = 0; i < array_count(expected); i++)
		assert_int_equal(error_from_errno(expected[i].value), expected[i].code);
}

static void a_failed_assert_names_its_place_and_aborts(void **state)
{
	int out[2];
	assert_int_equal(pipe(out), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(out[1], STDERR_FILENO);
		sp_assert(child > 0);
		_exit(0);
	}
	close(out[1]);
	char text[256] = "";
	ssize_t got = read(out[0], text, sizeof(text) - 1);
	close(out[0]);
	int status = 0;
	waitpid(child, &status, 0);
	assert_true(got > 0);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
	assert_non_null(strstr(text, "child > 0"));
	assert_non_null(strstr(text, "t_base_error.c"));
}

static void scope_ends_release(void **state)
{
	int fd;
	{
		scoped_fd int inner = dup(STDERR_FILENO);
		scoped_fd int none = -1;
		scoped_free char *bytes = malloc(10);
		fd = inner;
		assert_true(fd >= 0 && none == -1 && bytes);
	}
	assert_int_equal(close(fd), -1);
	assert_int_equal(errno, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_sentence_stays),
		cmocka_unit_test(no_object_is_fine),
		cmocka_unit_test(a_prefix_goes_before),
		cmocka_unit_test(long_sentences_are_cut_and_terminated),
		cmocka_unit_test(every_code_has_name_sentence_and_status),
		cmocka_unit_test(errno_maps_to_our_codes),
		cmocka_unit_test(a_failed_assert_names_its_place_and_aborts),
		cmocka_unit_test(scope_ends_release),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
