/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest service: it reads and writes under a read/write lock, works under two locks at once
 * for longer than a lease, and loses a hold. Usage: service [url] */
#include <iostream>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include <rlock/rlock.hpp>

using namespace std::chrono_literals;

int main(int argc, char **argv)
try {
    rlock::client_options opts;
    opts.url = argc > 1 ? argv[1] : "redis://localhost";
    opts.renewed_lease_ms = 900; /* renewed every 300 ms until the unlock */
    opts.on_lost = [](const rlock_loss &loss) {
        std::cout << "lost " << loss.name << ": " << rlock_reason_text(loss.reason) << std::endl;
    };
    rlock::client client(opts);
    rlock::handle order = client.reentrant("order:7"), stock = client.fair("stock:3");
    rlock::read_write price = client.read_write("price:3");

    if (std::shared_lock reading(price); reading) {
        std::cout << "read the price" << std::endl;
    }
    if (std::unique_lock writing(price, 500ms); writing) { /* or somebody else has it for longer */
        std::cout << "wrote the price" << std::endl;
    }
    rlock::handle both = rlock::multi({order, stock});
    int steps = 0;
    for (std::unique_lock hold(both); steps < 3 && both.is_valid(); steps++) {
        std::this_thread::sleep_for(400ms); /* a step of the work */
    }
    std::cout << "shipped in " << steps << " steps" << std::endl;
    if (std::unique_lock hold(order); hold) {
        order.force_unlock(); /* as an operator would, with rlock break */
        std::this_thread::sleep_for(200ms);
    }
    std::cout << "the unlock says: " << order.unlock_error().message() << std::endl;
} catch (const std::system_error &error) {
    std::cerr << error.what() << std::endl;
    return 1;
}
