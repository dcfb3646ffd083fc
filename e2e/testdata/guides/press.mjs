// Opens a page in Chromium, and presses its buttons "Run" one after another: as many as there are
// texts. Each text must appear before the next button is pressed.
import { chromium } from 'playwright-core'

const [address, ...texts] = process.argv.slice(2)
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell',
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking',
    // A page of the test counts as one from the internet, which may not connect to 127.0.0.1.
    '--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets',
  ],
})
try {
  const page = await browser.newPage()
  page.on('pageerror', (error) => console.error(String(error)))
  const failed = []
  page.on('requestfailed', (request) => failed.push(`${request.url()} ${request.failure().errorText}`))
  await page.goto(address)
  for (const [i, text] of texts.entries()) {
    await page.getByRole('button', { name: /^Run/ }).nth(i).click()
    await page.getByText(text).waitFor({ timeout: 60_000 }).catch(async (error) => {
      console.error(...failed, await page.innerText('body'))
      throw error
    })
  }
} finally {
  await browser.close()
}
