// Tests the built bundle in a real browser, through a proxy that cuts connections.
import { readFileSync } from 'node:fs'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Sandgate as Client } from '../../src/browser.js'
import { Cutter } from '../rig.js'

const url = process.env.SANDGATE_URL!
const token = process.env.SANDGATE_TOKEN!
const binary = process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell'

// The functions below are sent to the page, where this is the bundle.
declare const Sandgate: new (o: object) => Client

describe('in Chromium, the bundle', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: binary, args: [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking',
      // A page that the test itself serves counts as one from the internet, which may not connect
      // to 127.0.0.1.
      '--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets',
    ] })
  })
  afterAll(() => browser?.close())

  /** A page of the server's own origin that has loaded the bundle. */
  async function open(origin: string): Promise<{ page: Page; errors: string[] }> {
    const page = await browser.newPage()
    const errors: string[] = []
    page.on('pageerror', (e) => errors.push(String(e)))
    const bundle = readFileSync(new URL('../../dist/browser.js', import.meta.url), 'utf8')
    await page.route(`${origin}/client-test/*`, (route) => route.fulfill(route.request().url().endsWith('.js')
      ? { contentType: 'text/javascript', body: bundle }
      : { contentType: 'text/html', body: '<!doctype html><script type="module">import * as s from "./sandgate.js"; Object.assign(window, s)</script>' }))
    await page.goto(`${origin}/client-test/page`)
    return { page, errors }
  }

  it('executes, uploads with progress, downloads and runs, with a token or tickets of the host', async () => {
    const { page, errors } = await open(url)
    const got = await page.evaluate(async (token) => {
      const sg = new Sandgate({ url: location.origin, token })
      const s = await sg.sandbox({ language: 'python' })
      const k = await s.kernel('python')
      let out = ''
      for await (const e of k.execute('print("ü", 6 * 7)')) if (e.type === 'stdout') out += e.text
      const told: number[] = []
      const size = 3_000_000
      const info = await s.files.write('a b.bin', new Blob([new Uint8Array(size).fill(7)]), { onProgress: (n) => told.push(n) })
      const back = await (await s.files.open('a b.bin')).bytes()
      const types: string[] = []
      // Text may come in parts
      for await (const e of sg.stream('print(1)')) if (types.at(-1) !== e.type) types.push(e.type)
      const refused = await s.files.open('none').catch((e: { kind: string }) => e.kind)
      const wrong = await new Sandgate({ url: location.origin, token: 'sgt_wrong' }).connect().catch((e: { kind: string }) => e.kind)
      const ticket = async () => {
        const res = await fetch('/v1/tickets', { method: 'POST', headers: { Authorization: `Bearer ${token}` } })
        return ((await res.json()) as { ticket: string }).ticket
      }
      const guest = new Sandgate({ url: location.origin, ticket })
      const again = await guest.getSandbox(s.id)
      let guests = ''
      for await (const e of (await again.kernel()).execute('print("guest")')) if (e.type === 'stdout') guests += e.text
      await s.delete()
      guest.close()
      sg.close()
      return { out, size: info.size, whole: back.length === size && back.every((b) => b === 7), last: told.at(-1), types, refused, wrong, guests }
    }, token)
    expect(got).toMatchObject({
      out: 'ü 42\n', size: 3_000_000, whole: true, last: 3_000_000, refused: 'not_found', wrong: 'unauthenticated', guests: 'guest\n',
      types: ['start', 'stdout', 'done'],
    })
    expect(errors).toEqual([])
    await page.close()
  })

  it('comes back at once when the network does', async () => {
    const cutter = await Cutter.start(url, 0, 1, 6)
    try {
      const { page } = await open(cutter.url)
      const states = await page.evaluate(async (token) => {
        const states: string[] = []
        const sg = new Sandgate({
          url: location.origin, token, backoff: { min: 3_600_000, max: 3_600_000 }, onState: (s: { state: string }) => states.push(s.state),
        })
        Object.assign(window, { states })
        await sg.connect()
        return states
      }, token)
      expect(states).toEqual(['connecting', 'open'])
      cutter.cutNow()
      const seen = () => page.evaluate(() => (window as unknown as { states: string[] }).states)
      while ((await seen()).at(-1) !== 'waiting');
      await page.evaluate(() => window.dispatchEvent(new Event('online')))
      while ((await seen()).at(-1) !== 'open');
      expect(await seen()).toEqual(['connecting', 'open', 'waiting', 'connecting', 'open'])
      await page.close()
    } finally {
      cutter.stop()
    }
  })

  it('gets every byte once while its connection is cut at random bytes', async () => {
    const cutter = await Cutter.start(url, 0, 60_000, 6)
    try {
      const { page, errors } = await open(cutter.url)
      const session = await page.evaluate(async (token) => {
        const sg = new Sandgate({ url: location.origin, token, backoff: { min: 1, max: 20 } })
        Object.assign(window, { sg })
        return (await sg.sandbox()).id
      }, token)
      cutter.cuts = 120
      const got = await page.evaluate(async (id) => {
        const { sg } = window as unknown as { sg: Client }
        let s
        for (;;) { // this test is not about REST
          try {
            s = await sg.getSandbox(id)
            break
          } catch {
            continue
          }
        }
        const code = 'import os\nfor i in range(20000): os.write(1, b"%d " % i * 20)'
        const p = await s.start({ argv: ['python3', '-c', code] })
        const parts: Uint8Array[] = []
        for await (const e of p) {
          if (e.type === 'stdout') parts.push(e.bytes)
          if (e.type === 'gap') throw new Error('a gap')
        }
        const text = await new Blob(parts as BlobPart[]).text()
        let want = ''
        for (let i = 0; i < 20000; i++) want += `${i} `.repeat(20)
        return { same: text === want, length: text.length, reconnects: sg.reconnects }
      }, session)
      expect(got).toMatchObject({ same: true })
      expect(got.reconnects).toBeGreaterThan(40)
      expect(errors).toEqual([])
      cutter.cuts = 0
      await fetch(`${url}/v1/sessions/${session}`, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } })
      await page.close()
    } finally {
      cutter.stop()
    }
  })
})
