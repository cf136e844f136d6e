/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share. Each file beside this one is a target: libFuzzer calls it with
 * inputs that it invents, and replay.c with those that are kept in corpus/. A target aborts when it
 * finds a fault. */
#ifndef RLOCK_TEST_FUZZ_H
#define RLOCK_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(expr)                                                                           \
    ((expr) ? (void)0 : ((void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expr), abort()))

#endif
