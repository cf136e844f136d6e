/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RedMutex of redis-plus-plus, with its own defaults. bench/peers/README.md says what the bench
 * tells it, and what it answers.
 */
#include <sw/redis++/patterns/redlock.h>
#include <sw/redis++/redis++.h>
#include <sw/redis++/version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace
{
namespace redis = sw::redis;
using Clock = std::chrono::steady_clock;

enum { WARMING, MEASURING, OVER };
std::atomic<int> phase{WARMING};

struct Asked {
    std::string row;
    int threads = 1, first = 0;
    std::chrono::microseconds hold{0};
    std::vector<std::string> urls;
};

struct Worker {
    int64_t longest = 0;
    std::vector<int64_t> samples;
};

Asked read_words(int argc, char **argv)
{
    Asked asked;

    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        const size_t equals = word.find('=');
        const std::string key = word.substr(0, equals), value = word.substr(equals + 1);

        if (key == "row") {
            asked.row = value;
        } else if (key == "threads") {
            asked.threads = std::stoi(value);
        } else if (key == "first") {
            asked.first = std::stoi(value);
        } else if (key == "hold_us") {
            asked.hold = std::chrono::microseconds(std::stoll(value));
        } else if (key == "url") {
            asked.urls.push_back(value);
        }
    }
    return asked;
}

void note(Worker &worker, Clock::time_point began)
{
    const int64_t took = std::chrono::nanoseconds(Clock::now() - began).count();
    const int now = phase;

    if (now != WARMING) {
        worker.longest = std::max(worker.longest, took);
    }
    if (now == MEASURING) {
        worker.samples.push_back(took);
    }
}

/* lock() sleeps for up to 5 ms before each attempt, even the first. */
void take(redis::RedMutex &mutex)
{
    if (!mutex.try_lock()) {
        mutex.lock();
    }
}

void work(Worker &worker, redis::RedMutex &mutex, const Asked &asked)
{
    const bool of_both = asked.row == "own";

    while (phase != OVER) {
        const Clock::time_point began = Clock::now();

        take(mutex);
        if (!of_both) {
            note(worker, began);
        }
        if (asked.hold.count() > 0) {
            std::this_thread::sleep_for(asked.hold);
        }
        mutex.unlock();
        if (of_both) {
            note(worker, began);
        }
    }
}

std::string name_of(int number)
{
    char name[16];

    std::snprintf(name, sizeof(name), "name%04d", number);
    return name;
}

/* One for each server, with a connection for each thread and the watcher. */
std::vector<std::shared_ptr<redis::Redis>> connect(const Asked &asked)
{
    std::vector<std::shared_ptr<redis::Redis>> servers;
    const std::string pool = "?pool_size=" + std::to_string(asked.threads + 1);

    for (const std::string &url : asked.urls) {
        servers.push_back(std::make_shared<redis::Redis>(url + pool));
    }
    return servers;
}
} // namespace

int main(int argc, char **argv)
{
    const Asked asked = read_words(argc, argv);
    const auto servers = connect(asked);
    const auto watcher = std::make_shared<redis::LockWatcher>();
    std::vector<std::unique_ptr<redis::RedMutex>> mutexes;
    std::vector<Worker> workers(static_cast<size_t>(asked.threads));
    std::vector<std::thread> threads;
    std::string line;

    for (size_t i = 0; i < workers.size(); i++) {
        const std::string name =
            name_of(asked.row == "one" ? 0 : asked.first + static_cast<int>(i));

        mutexes.push_back(std::make_unique<redis::RedMutex>(
            servers.begin(), servers.end(), name, nullptr, redis::RedMutexOptions{}, watcher));
        threads.emplace_back(work, std::ref(workers[i]), std::ref(*mutexes[i]), std::cref(asked));
    }
    std::cout << "ready " << redis::VERSION_MAJOR << '.' << redis::VERSION_MINOR << '.'
              << redis::VERSION_PATCH
              << "; RedMutex, one LockWatcher; one connection for each thread; try_lock(), then "
                 "lock(), which asks after 0 to 5 ms"
              << std::endl;
    for (int next = MEASURING; next <= OVER && std::getline(std::cin, line); next++) {
        phase = next;
    }
    phase = OVER;
    for (size_t i = 0; i < workers.size(); i++) {
        threads[i].join();
        std::cout << i << ' ' << workers[i].longest;
        for (const int64_t sample : workers[i].samples) {
            std::cout << ' ' << sample;
        }
        std::cout << '\n';
    }
    return std::cout.flush() ? 0 : 1;
}
