/* SPDX-License-Identifier: Apache-2.0 */
/* Each line is of a program for 0.1: none means something else now. */
#include <rlock/rlock.hpp>

using namespace std::chrono_literals;

void before(rlock::handle &lock, rlock::take how);
void before(rlock::handle &lock, rlock::take how)
{
    how.wait = 500ms;                   /* C++: error: wait */
    (void)lock.acquire({500ms});        /* C++: error: no matching */
    (void)lock.try_acquire({0ms, 20s}); /* g++: error: convert; clang++: error: conversion */
}
