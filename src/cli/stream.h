/* Standard input and output as streams of bytes. */
#ifndef STREAM_H
#define STREAM_H

#include "cli.h"

int stream_put(const uint8_t *bytes, size_t count, struct error *err);
/* Reads until the buffer is full or the input ends. */
int stream_take(uint8_t *to, uint64_t want, uint64_t *ret_got, struct error *err);

#endif
