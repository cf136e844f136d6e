// SPDX-License-Identifier: Apache-2.0

// node redlock over ioredis, with its own defaults; it only never gives up. bench/peers/README.md says what the bench
// tells it, and what it answers.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { default as Redlock } from 'redlock'

const LEASE_MS = 30000
const WARMING = 0
const MEASURING = 1
const OVER = 2

let phase = WARMING

const words = process.argv.slice(2).map(word => word.split('='))
const asked = Object.fromEntries(words)
const urls = words.filter(([key]) => key === 'url').map(([, url]) => url)

function note(worker, ns) {
  if (phase !== WARMING) worker.longest = Math.max(worker.longest, ns)
  if (phase === MEASURING) worker.samples.push(ns)
}

async function work(worker, redlock, name) {
  const ofBoth = asked.row === 'own'
  const holdMs = Number(asked.hold_us) / 1000
  while (phase !== OVER) {
    const began = process.hrtime.bigint()
    const lock = await redlock.acquire([name], LEASE_MS)
    if (!ofBoth) note(worker, Number(process.hrtime.bigint() - began))
    if (holdMs > 0) await sleep(holdMs)
    await lock.release()
    if (ofBoth) note(worker, Number(process.hrtime.bigint() - began))
  }
}

const clients = urls.map(url => new Redis(url))
const redlock = new Redlock(clients, { retryCount: -1 })
redlock.on('error', () => {}) // each attempt that finds the lock taken

const workers = []
const running = []
for (let i = 0; i < Number(asked.threads); i++) {
  const number = asked.row === 'one' ? 0 : Number(asked.first) + i
  workers[i] = { longest: 0, samples: [] }
  running[i] = work(workers[i], redlock, 'name' + String(number).padStart(4, '0'))
}

const require = createRequire(import.meta.url)
const versions = require('./package.json').dependencies
console.log(`ready ${versions.redlock} over ioredis ${versions.ioredis}, Node.js ${process.versions.node}; one connection \
for all tasks; asks again after 100 to 300 ms, its default`)
for await (const line of createInterface({ input: process.stdin })) {
  phase = line === 'measure' ? MEASURING : OVER
  if (phase === OVER) break
}
await Promise.all(running)
const lines = workers.map(({ longest, samples }, i) => [i, longest, ...samples].join(' ') + '\n')
process.stdout.write(lines.join(''), () => process.exit(0))
