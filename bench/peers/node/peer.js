// SPDX-License-Identifier: Apache-2.0

// What the peers for Node.js share: bench/peers/README.md says what the bench tells them, and what they answer.
import { openSync, readSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const WARMING = 0
const MEASURING = 1
const OVER = 2

const words = process.argv.slice(2).map(word => word.split('='))
export const asked = Object.fromEntries(words)
export const urls = words.filter(([key]) => key === 'url').map(([, url]) => url)
export const versions = createRequire(import.meta.url)('./package.json').dependencies

let phase = WARMING

// The file of the word counter.
class Book {
  constructor(path, slot) {
    this.file = openSync(path, 'r+')
    this.own = 16 + 8 * slot
    this.bytes = Buffer.alloc(8)
  }

  read(at) {
    readSync(this.file, this.bytes, 0, 8, at)
    return this.bytes.readBigInt64LE()
  }

  write(at, number) {
    this.bytes.writeBigInt64LE(number)
    writeSync(this.file, this.bytes, 0, 8, at)
  }

  async visit(holdMs) {
    const number = this.read(0)
    await sleep(holdMs)
    this.write(0, number + 1n)
    this.write(this.own, this.read(this.own) + 1n)
    this.write(8, BigInt(Date.now()) * 1000000n)
  }
}

function note(worker, ns) {
  if (phase !== WARMING) worker.longest = Math.max(worker.longest, ns)
  if (phase === MEASURING) worker.samples.push(ns)
}

async function run(worker, newLock, name, book) {
  const ofBoth = asked.row === 'own'
  const holdMs = Number(asked.hold_us) / 1000
  const lock = newLock(name)
  while (phase !== OVER) {
    const began = process.hrtime.bigint()
    await lock.acquire()
    if (!ofBoth) note(worker, Number(process.hrtime.bigint() - began))
    if (book) await book.visit(holdMs)
    else if (holdMs > 0) await sleep(holdMs)
    await lock.release()
    if (ofBoth) note(worker, Number(process.hrtime.bigint() - began))
  }
}

// Has tasks lock and unlock, each what newLock() gives for a name, until the bench says that it is over.
export async function work(about, newLock) {
  const book = asked.counter ? new Book(asked.counter, Number(asked.slot)) : null
  const workers = []
  const running = []
  for (let i = 0; i < Number(asked.threads); i++) {
    const number = asked.row === 'one' ? 0 : Number(asked.first) + i
    workers[i] = { longest: 0, samples: [] }
    const name = asked.name ?? 'name' + String(number).padStart(4, '0')
    running[i] = run(workers[i], newLock, name, book)
  }
  console.log(`ready ${about}`)
  for await (const line of createInterface({ input: process.stdin })) {
    phase = line === 'measure' ? MEASURING : OVER
    if (phase === OVER) break
  }
  await Promise.all(running)
  const lines = workers.map(({ longest, samples }, i) => [i, longest, ...samples].join(' ') + '\n')
  process.stdout.write(lines.join(''), () => process.exit(0))
}
