// Runs cells in the notebook of a session, in Chromium, and prints the output of each.
// Arguments: the session, and the code of each cell.
import { chromium } from 'playwright-core'

const [session, ...codes] = process.argv.slice(2)
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
})
try {
  const page = await browser.newPage()
  page.setDefaultTimeout(120_000)
  await page.goto(`${process.env.SANDGATE_URL}/s/${session}#token=${process.env.SANDGATE_TOKEN}`)
  await page.locator('.cell.active .cm-content').waitFor()
  for (const [n, code] of codes.entries()) {
    await page.locator('.cell.active .cm-content').click()
    await page.keyboard.press('Control+a')
    await page.keyboard.insertText(code)
    await page.keyboard.press('Shift+Enter')
    await page.locator(`.cells > .cell:nth-of-type(${n + 1})[data-state="ok"]`).waitFor()
    const output = page.locator('.cell').nth(n).locator('.out-text')
    await output.filter({ hasText: /\S/ }).waitFor()
    console.log((await output.innerText()).trim())
  }
} finally {
  await browser.close()
}
