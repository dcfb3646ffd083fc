// Types into a terminal of the web application and prints how long each echo took, in ms, first in
// an idle terminal and then during a flood: see page.go.
//
// The program answers a key by setting the terminal's title, because text would have scrolled away
// before the page reads it. The title takes the same path as the flood, whose output may come
// between its bytes when the terminal is full. Then it is not a title, the key is pressed again
// after a second, and the clock continues.
import { chromium } from 'playwright-core'

const { SANDGATE_URL: url, SANDGATE_TOKEN: token } = process.env
const keys = Number(process.argv[2])
const answer = String.raw`import os, tty
tty.setraw(0)
n = 0
while True:
    if os.read(0, 1) == b"q": break
    n += 1
    os.write(1, b"\x1b]2;key %d\x07" % n)
os.system("stty sane")
`

const rest = async (method, path, body) => {
  const res = await fetch(url + path, { method, headers: { Authorization: `Bearer ${token}` }, body })
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${await res.text()}`)
  return res.json()
}
const { id } = await rest('POST', '/v1/sessions', '{}')
await rest('PUT', `/v1/sessions/${id}/files/answer.py`, answer)
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell', args: ['--no-sandbox', '--disable-gpu'] })
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
  await page.goto(`${url}/s/${id}/terminal#token=${token}`)
  await page.getByRole('button', { name: 'Open a terminal' }).click()
  await page.locator('.pane.active .xterm-rows').filter({ hasText: /[$#]/ }).waitFor()
  await page.evaluate(() => {
    window.echoes = []
    addEventListener('keydown', (e) => (window.pressed ??= e.timeStamp), true)
    const tabs = document.querySelector('[role=tablist]')
    let before = ''
    new MutationObserver(() => {
      const title = tabs.innerText.trim()
      if (title === before || !title.startsWith('key ')) return
      before = title
      requestAnimationFrame((now) => {
        window.echoes.push(Math.max(now, performance.now()) - window.pressed)
        window.pressed = undefined
      })
    }).observe(tabs, { subtree: true, childList: true, characterData: true })
  })
  const type = async (line) => {
    await page.keyboard.type(line)
    await page.keyboard.press('Enter')
    await page.keyboard.press('x') // until it answers
    await page.getByRole('tab', { name: 'key 1' }).waitFor()
    await page.evaluate(() => {
      window.echoes.length = 0
      window.pressed = undefined
    })
    for (let i = 1; i <= keys; i++) {
      await page.keyboard.press('x')
      while (!await page.waitForFunction((n) => window.echoes.length >= n, i, { timeout: 1000 }).catch(() => false)) await page.keyboard.press('x')
    }
    return page.evaluate(() => window.echoes.slice())
  }
  const quiet = await type('python3 answer.py')
  await page.keyboard.press('q')
  const flood = await type('clear; yes "a flood of output that never ends" & python3 answer.py')
  console.log(JSON.stringify({ quiet, flood }))
} finally {
  await browser.close()
  await fetch(`${url}/v1/sessions/${id}`, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } })
}
