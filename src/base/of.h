/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_BASE_OF_H
#define RLOCK_BASE_OF_H

#include <stddef.h>

/* What this node, timer or other member stands in. */
#define RLOCK__OF(type, member, at) ((type *)(void *)((char *)(at)-offsetof(type, member)))

#endif
