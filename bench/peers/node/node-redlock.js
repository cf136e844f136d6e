// SPDX-License-Identifier: Apache-2.0

// node redlock over ioredis, with its own defaults; it only never gives up.
import { Redis } from 'ioredis'
import { default as Redlock } from 'redlock'
import { urls, versions, work } from './peer.js'

const LEASE_MS = 30000

const redlock = new Redlock(urls.map(url => new Redis(url)), { retryCount: -1 })
redlock.on('error', () => {}) // each attempt that finds the lock taken

class Lock {
  constructor(name) {
    this.name = name
  }

  async acquire() {
    this.held = await redlock.acquire([this.name], LEASE_MS)
  }

  async release() {
    await this.held.release()
  }
}

await work(`${versions.redlock} over ioredis ${versions.ioredis}, Node.js ${process.versions.node}; one connection for all \
tasks; asks again after 100 to 300 ms, its default`, name => new Lock(name))
