#include "base.h"

#include <stdio.h>

#define TEXT_ROOM_BYTES_MIN 128

static bool text_reserve(struct text *t, size_t more_bytes)
{
	size_t needed = t->length + more_bytes + 1;
	if (needed <= t->room)
		return true;
	size_t room = max_of(t->room, (size_t)TEXT_ROOM_BYTES_MIN);
	while (room < needed)
		room *= 2;
	char *bytes = realloc(t->bytes, room);
	if (!bytes) {
		t->failed = true;
		return false;
	}
	t->bytes = bytes;
	t->room = room;
	return true;
}

void text_addf(struct text *t, const char *format, ...)
{
	if (t->failed)
		return;
	/* Room for the common case first, so that most calls format once. */
	if (!text_reserve(t, TEXT_ROOM_BYTES_MIN - 1))
		return;
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	int written = vsnprintf(t->bytes + t->length, t->room - t->length, format, args);
	if (written < 0) {
		t->bytes[t->length] = '\0';
		t->failed = true;
	} else if ((size_t)written < t->room - t->length) {
		t->length += (size_t)written;
	} else if (text_reserve(t, (size_t)written)) {
		vsnprintf(t->bytes + t->length, t->room - t->length, format, again);
		t->length += (size_t)written;
	} else {
		t->bytes[t->length] = '\0';
	}
	va_end(again);
	va_end(args);
}

void text_release(struct text *t)
{
	free(t->bytes);
	*t = (struct text){0};
}
