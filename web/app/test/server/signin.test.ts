import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { launch, open, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

it('takes the token of the printed address out of the address bar, keeps it over a reload, and forgets it on sign-out', async () => {
  const { page, context, complaints } = await open(browser)
  await page.getByRole('button', { name: 'Settings' }).waitFor()
  expect(page.url()).toBe(`${url}/`)
  await page.reload()
  await page.getByRole('button', { name: 'Settings' }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  expect(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).not.toContain(token)
  expect(complaints).toEqual([])
  await context.close()
})

it('asks before the token of an address replaces the one in use', async () => {
  const { page, context } = await open(browser)
  await page.getByRole('button', { name: 'Settings' }).waitFor()
  const stored = () => page.evaluate(() => localStorage.getItem('sandgate.token'))
  const question = page.getByRole('dialog', { name: 'Use the access token of this address?' })
  for (const visit of [
    () => page.goto(`${url}/?again#token=sgt_other`),
    () => page.evaluate(() => { location.hash = '#token=sgt_other' }),
  ]) {
    await visit()
    await question.waitFor()
    expect(page.url()).not.toContain('sgt_other')
    expect(await stored()).toBe(token)
    await shot(page, 'signin-other')
    await page.getByRole('button', { name: 'Cancel' }).click()
    await question.waitFor({ state: 'detached' })
    expect(await stored()).toBe(token)
  }
  await page.goto(`${url}/?again#token=${token}`) // the token in use needs no question
  await page.getByRole('button', { name: 'Settings' }).waitFor()
  expect(await question.count()).toBe(0)
  await page.evaluate(() => { location.hash = '#token=sgt_other' })
  await page.getByRole('button', { name: 'Use the other token' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor() // the server refuses it
  expect(await stored()).toBe('sgt_other')
  await context.close()
})

it('asks for a token, says when it is wrong, and takes a pasted address', async () => {
  const { page, context } = await open(browser, '/', { signedIn: false })
  await page.getByLabel('Token').fill('sgt_wrong')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').filter({ hasText: /token/ }).waitFor()
  await shot(page, 'signin-wrong')
  await page.getByLabel('Token').fill(`${url}/#token=${token}`)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor({ state: 'detached' })
  await context.close()
})
