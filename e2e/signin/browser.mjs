// Signs in and out with Chromium, at the server whose address is the first argument. It
// prints the error if one happens.
import { chromium } from 'playwright-core'

const url = process.argv[2]
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
})
const expect = (ok, what) => {
  if (!ok) throw new Error(what)
}
try {
  const context = await browser.newContext({ reducedMotion: 'reduce' })
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  await page.goto(`${url}/?x=1`)
  await page.getByRole('link', { name: 'Sign in with your organisation' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Settings' }).waitFor()
  expect(page.url() === `${url}/?x=1`, `the last address is ${page.url()}`)
  const session = async () => (await context.cookies()).find((c) => c.name === '__Host-sandgate')
  const cookie = await session()
  expect(cookie?.httpOnly && cookie.secure && cookie.sameSite === 'Lax' && cookie.path === '/', `the cookie is ${JSON.stringify(cookie)}`)
  expect(!(await context.cookies()).some((c) => c.name === '__Host-sandgate-signin'), 'the cookie of the attempt remains')
  expect(!(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie)).includes('sgs_'), 'the token is stored')
  // The next page requests its own token.
  await page.reload()
  await page.getByRole('button', { name: 'Settings' }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  for (let i = 0; i < 100 && (await session()); i++) await page.waitForTimeout(50)
  expect(!(await session()), 'after the sign-out the cookie remains')
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
} finally {
  await browser.close()
}
