// SPDX-License-Identifier: Apache-2.0

// The Mutex of redis-semaphore over ioredis, with its own defaults; it only never gives up. scripts/interop alone uses it.
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import { urls, versions, work } from './peer.js'

const client = new Redis(urls[0])

// Its key is mutex:name.
await work(`${versions['redis-semaphore']} over ioredis ${versions.ioredis}, Node.js ${process.versions.node}; one \
connection for all tasks; asks again after 10 ms, its default`,
  name => new Mutex(client, name, { acquireTimeout: Infinity, lockTimeout: 30000 }))
