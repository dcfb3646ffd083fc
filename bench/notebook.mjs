// Opens a notebook of the web application and prints, in ms, when the page first painted in each of
// some loads, and how long the browser's longest task was while a cell printed 100,000 lines, for
// each of some floods: see page.go.
import { chromium } from 'playwright-core'

const { SANDGATE_URL: url, SANDGATE_TOKEN: token } = process.env
const headers = { Authorization: `Bearer ${token}` }
const created = await fetch(`${url}/v1/sessions`, { method: 'POST', headers, body: '{}' })
if (!created.ok) throw new Error(`create: ${created.status} ${await created.text()}`)
const { id } = await created.json()
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell', args: ['--no-sandbox', '--disable-gpu'] })
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
  await page.goto(`${url}/s/${id}#token=${token}`)
  const paint = []
  for (let i = 0; i < 10; i++) {
    await page.reload()
    const first = await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime)
    paint.push(await first.jsonValue())
  }
  const code = page.locator('.cell.active .cm-content')
  await code.waitFor()
  await page.evaluate(() => {
    window.tasks = []
    new PerformanceObserver((l) => window.tasks.push(...l.getEntries().map((e) => e.duration))).observe({ type: 'longtask' })
  })
  const task = []
  for (let i = 0; i < 5; i++) {
    await page.evaluate(() => void (window.tasks.length = 0))
    await code.click()
    await page.keyboard.insertText('for i in range(100000): print("line", i, "of a flood that a page must bear")')
    await page.keyboard.press('Shift+Enter')
    const cell = page.locator(`.cells > .cell:nth-of-type(${i + 1})`)
    await cell.and(page.locator('[data-state="ok"]')).waitFor({ timeout: 120_000 })
    await cell.locator('.block', { hasText: 'line 99999' }).waitFor({ timeout: 120_000 })
    task.push(await page.evaluate(() => Math.max(0, ...window.tasks)))
  }
  console.log(JSON.stringify({ paint, task }))
} finally {
  await browser.close()
  await fetch(`${url}/v1/sessions/${id}`, { method: 'DELETE', headers })
}
