/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest service: reads, writes, has two locks for longer than a lease, and loses one. */
#include <iostream>
#include <mutex>
#include <rlock/rlock.hpp>
#include <shared_mutex>
#include <thread>
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
    if (std::unique_lock writing(price, std::chrono::milliseconds(500)); writing) {
        std::cout << "wrote the price" << std::endl; /* else somebody has it for longer */
    }
    rlock::handle both = rlock::multi({order, stock});
    int steps = 0;
    for (std::unique_lock hold(both); steps < 3 && both.is_valid(); steps++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(400)); /* a step of the work */
    }
    std::cout << "shipped in " << steps << " steps" << std::endl;
    if (std::unique_lock hold(order); hold) {
        order.force_unlock(); /* as an operator would, with rlock break */
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    std::cout << "the unlock says: " << order.unlock_error().message() << std::endl;
} catch (const std::system_error &error) {
    std::cerr << error.what() << std::endl;
    return 1;
}
