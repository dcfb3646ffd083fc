// Tests the console of owners and operators.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const wide = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
const row = (page: Page, name: string | RegExp) => page.getByRole('row', { name })

it('shows the state of the server, and the way to it', async () => {
  const s = await session('python')
  await api('POST', '/v1/run', { session: s.id, language: 'python', code: '1' })
  const { page, context, complaints } = await open(browser)
  await page.getByRole('button', { name: 'Settings' }).click()
  await page.getByRole('menuitem', { name: 'Console' }).click()
  await page.getByRole('heading', { name: 'Console' }).waitFor()
  await page.locator('.tile', { hasText: 'Running sessions' }).locator('dd').waitFor()
  expect(Number((await page.locator('.tile', { hasText: 'Running sessions' }).locator('dd').innerText()).replaceAll(',', ''))).toBeGreaterThan(0)
  await row(page, /^Cells and programs run [1-9]/).waitFor()
  await shot(page, 'console-overview')
  await expect.poll(() => barriers(page)).toEqual([])
  expect(complaints).toEqual([])
  await context.close()
  await s.end()
})

it('shows the nodes, drains one and lets it take sessions again', async () => {
  // This server is alone: its only node is listed, and cannot be drained.
  const own = await open(browser, '/console/nodes')
  const [only] = (await api<{ nodes: { name: string; version: string; places: number; state: string }[] }>('GET', '/v1/nodes')).nodes
  const card = own.page.getByRole('listitem', { name: `Node ${only!.name}` })
  await card.getByText('Ready', { exact: true }).waitFor()
  await card.getByText(`version ${only!.version}`).waitFor()
  expect(await card.innerText()).toContain(`of ${only!.places.toLocaleString('en')}`)
  await card.getByText('This node cannot be drained').waitFor()
  await row(own.page, /^python \d+ [1-9]/).waitFor()
  await shot(own.page, 'console-node')
  await expect.poll(() => barriers(own.page)).toEqual([])
  expect(own.complaints).toEqual([])
  await own.context.close()
  // A cluster, whose answers the test gives.
  const GiB = 2 ** 30
  const node = (name: string, o: object) => ({
    name, version: '1.4.0', state: 'ready', movable: true, address: `${name}:7000`, zone: 'north', started_ms: Date.UTC(2026, 10, 1), sessions: 12, places: 40, hibernated: 30,
    ready: 6, pool_size: 8, memory: 64 * GiB, memory_used: 20 * GiB, processors: 0.35, disk: 500 * GiB, disk_free: 300 * GiB, ...o,
  })
  const nodes = [node('n1', {}), node('n2', { version: '1.5.0', zone: 'south' }), { name: 'n3', state: 'unreachable', movable: false, sessions: 3, places: 40, hibernated: 0, ready: 0, pool_size: 0 }]
  const sent: unknown[] = []
  const { page, context, complaints } = await open(browser, '/console/overview')
  await page.route('**/v1/nodes', (route) => route.fulfill({ json: { nodes } }))
  await page.route('**/v1/nodes/n1', async (route) => {
    const change = route.request().postDataJSON() as { draining: boolean }
    sent.push([route.request().method(), change])
    nodes[0] = node('n1', change.draining ? { state: 'draining' } : {})
    await route.fulfill({ json: nodes[0] })
  })
  await page.getByRole('link', { name: 'Nodes' }).click()
  const n1 = page.getByRole('listitem', { name: 'Node n1' })
  await n1.getByText('12 of 40').waitFor()
  await page.getByText('The nodes run different versions: 1.4.0, 1.5.0.').waitFor()
  await page.locator('.tile', { hasText: 'Nodes that take sessions' }).getByText('2 of 3').waitFor()
  await page.getByRole('listitem', { name: 'Node n3' }).getByText('Does not answer.').waitFor()
  await shot(page, 'console-nodes')
  await expect.poll(() => barriers(page)).toEqual([])
  const act = async (action: string) => {
    await n1.getByRole('button', { name: 'More for n1' }).press('Enter')
    await page.getByRole('menuitem', { name: action }).press('Enter')
  }
  await act('Drain…')
  const asked = page.getByRole('dialog', { name: 'Drain n1?' })
  await asked.getByText('its 42 sessions move to other nodes').waitFor()
  await shot(page, 'console-drain')
  await asked.getByRole('button', { name: 'Drain' }).press('Enter')
  await n1.getByText('Takes no sessions. 42 sessions left.').waitFor()
  nodes[0] = node('n1', { state: 'drained', sessions: 0, hibernated: 2, moved: { parked: 40, stayed: 2, snapshots: 1 } })
  await n1.getByText('Takes no sessions. 40 sessions moved. 2 sessions could not move, 1 snapshot only here.').waitFor()
  await shot(page, 'console-drained')
  await expect.poll(() => barriers(page)).toEqual([])
  await act('Take sessions again')
  await n1.getByText('Ready', { exact: true }).waitFor()
  expect(sent).toEqual([['PATCH', { draining: true }], ['PATCH', { draining: false }]])
  await page.setViewportSize({ width: 360, height: 700 })
  await expect.poll(() => wide(page)).toBeLessThanOrEqual(0)
  await shot(page, 'console-nodes-phone')
  expect(complaints).toEqual([])
  await context.close()
})

it('makes a key, shows its secret once, rotates and revokes it', async () => {
  const name = `ci ${Date.now()}`
  const { page, context, complaints } = await open(browser, '/console/keys')
  await page.getByRole('button', { name: 'New key…' }).click()
  await page.getByLabel('Name', { exact: true }).fill(name)
  await page.getByLabel('Tenant', { exact: true }).fill('console-team')
  await page.getByLabel('Role', { exact: true }).selectOption('owner')
  await shot(page, 'console-new-key')
  await expect.poll(() => barriers(page)).toEqual([])
  await page.getByRole('button', { name: 'Create' }).click()
  const secret = await page.getByRole('textbox', { name: 'Secret' }).inputValue()
  const answers = (key: string) => fetch(`${url}/v1`, { headers: { Authorization: `Bearer ${key}` } }).then((r) => r.status)
  expect(await answers(secret)).toBe(200)
  await page.getByRole('button', { name: 'Done' }).click()
  await row(page, new RegExp(name)).getByText('console-team', { exact: true }).waitFor()
  await shot(page, 'console-keys')
  const act = async (action: string) => {
    await row(page, new RegExp(name)).getByRole('button', { name: `More for ${name}` }).click()
    await page.getByRole('menuitem', { name: action }).click()
  }
  await act('Rotate…')
  await page.getByRole('button', { name: 'Rotate', exact: true }).click()
  const next = await page.getByRole('textbox', { name: 'Secret' }).inputValue()
  expect(next).not.toBe(secret)
  expect([await answers(secret), await answers(next)]).toEqual([200, 200]) // the old one is valid for an hour
  await page.getByRole('button', { name: 'Done' }).click()
  // An owner sees the tenant, and neither the server nor other tenants.
  const own = await open(browser, `/console/tenants#token=${next}`, { signedIn: false })
  await row(own.page, /^console-team/).waitFor()
  expect(await own.page.getByRole('navigation', { name: 'Views of the console' }).getByRole('link').allInnerTexts()).toEqual(['Usage', 'Tenants', 'Keys', 'Audit log'])
  expect(await own.page.getByRole('row').count()).toBe(2)
  await own.page.goto(`${url}/console/overview`)
  await own.page.getByText('There is no such view for you.').waitFor()
  expect(own.complaints).toEqual([])
  await own.context.close()
  await act('Revoke…')
  await page.getByRole('button', { name: 'Revoke', exact: true }).click()
  await row(page, new RegExp(name)).waitFor({ state: 'detached' })
  expect([await answers(secret), await answers(next)]).toEqual([401, 401])
  expect(complaints).toEqual([])
  await context.close()
})

it('sets, changes and removes the quota of a tenant', async () => {
  const { page, context, complaints } = await open(browser, '/console/tenants')
  await page.getByRole('button', { name: 'Set a quota…' }).click()
  await page.getByLabel('Tenant', { exact: true }).fill('console-quota')
  await page.getByLabel('Sessions', { exact: true }).fill('1.5')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Sessions has to be a number, or empty.').waitFor()
  await page.getByLabel('Sessions', { exact: true }).fill('3')
  await page.getByLabel('Memory, MiB').fill('2048')
  await shot(page, 'console-quota')
  await expect.poll(() => barriers(page)).toEqual([])
  await page.getByRole('button', { name: 'Save' }).click()
  await row(page, /^console-quota own quota/).getByText('of 2,048 MiB').waitFor()
  const quota = async () => (await api<{ tenants: { name: string; own: boolean; quota: object }[] }>('GET', '/v1/tenants')).tenants.find((t) => t.name === 'console-quota')
  expect((await quota())?.quota).toEqual({ sessions: 3, memory_bytes: 2048 * 1024 * 1024 })
  await shot(page, 'console-tenants')
  await expect.poll(() => barriers(page)).toEqual([])
  const act = async (action: string) => {
    await page.getByRole('button', { name: 'More for console-quota' }).click()
    await page.getByRole('menuitem', { name: action }).click()
  }
  await act('Edit quota…')
  expect(await page.getByLabel('Memory, MiB').inputValue()).toBe('2048')
  await page.getByLabel('Memory, MiB').fill('')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect.poll(async () => (await quota())?.quota).toEqual({ sessions: 3 })
  await act('Remove quota…')
  await page.getByRole('button', { name: 'Remove', exact: true }).click()
  await row(page, /^console-quota/).waitFor({ state: 'detached' })
  expect(complaints).toEqual([])
  await context.close()
})

it('shows use over time, and saves it as a table', async () => {
  const s = await session('bash')
  await api('POST', '/v1/run', { session: s.id, language: 'bash', code: 'echo used' })
  await s.end()
  const { page, context, complaints } = await open(browser, '/console/usage')
  await page.getByText(/^Cells and programs: [1-9]/).waitFor()
  await row(page, /^local /).waitFor()
  await page.getByLabel('Measure').selectOption('Time of sandboxes')
  await page.getByText(/^Time of sandboxes: /).waitFor()
  await page.getByLabel('Group by').selectOption('By day')
  await row(page, new RegExp(`^${new Date().toISOString().slice(0, 10)}`)).waitFor()
  await shot(page, 'console-usage')
  await expect.poll(() => barriers(page)).toEqual([])
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()])
  expect(download.suggestedFilename()).toBe('usage-by-day.csv')
  await page.getByLabel('Label').fill('team:nobody')
  await page.getByLabel('Label').press('Enter')
  await page.getByText('Nothing was used in this time.').waitFor()
  expect(complaints).toEqual([])
  await context.close()
})

it('finds entries of the audit log', async () => {
  const s = await session('bash')
  await s.end()
  await fetch(`${url}/v1`, { headers: { Authorization: 'Bearer sgk_wrong' } })
  const { page, context, complaints } = await open(browser, '/console/audit')
  // A text that is typed stays, although the list without a filter comes meanwhile.
  await page.getByRole('cell', { name: 'session.create', exact: true }).first().waitFor()
  let release = () => {}
  const held = new Promise<void>((resolve) => (release = resolve))
  await page.route('**/v1/audit?*', async (route) => {
    await held
    await route.continue()
  })
  await page.getByRole('button', { name: 'Refresh' }).click()
  await page.getByLabel('Session', { exact: true }).fill(s.id)
  const listed = page.waitForResponse('**/v1/audit?*')
  release()
  await listed
  await page.unroute('**/v1/audit?*')
  await page.getByLabel('Session', { exact: true }).press('Enter')
  await expect.poll(() => page.getByRole('cell', { name: 'session.create', exact: true }).count()).toBe(1)
  await page.getByRole('cell', { name: 'session.end', exact: true }).waitFor()
  await shot(page, 'console-audit')
  await expect.poll(() => barriers(page)).toEqual([])
  await page.getByLabel('Session', { exact: true }).fill('')
  await page.getByLabel('Session', { exact: true }).press('Enter')
  await page.getByRole('button', { name: 'Refused sign-ins' }).click()
  await expect.poll(() => page.getByRole('cell', { name: 'session.create', exact: true }).count()).toBe(0)
  await page.getByRole('cell', { name: 'auth.failed', exact: true }).first().waitFor()
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()])
  expect(download.suggestedFilename()).toBe('audit.csv')
  await page.setViewportSize({ width: 360, height: 700 })
  await expect.poll(() => wide(page)).toBeLessThanOrEqual(0)
  await shot(page, 'console-audit-phone')
  for (const view of ['overview', 'nodes', 'usage', 'tenants', 'keys']) {
    await page.goto(`${url}/console/${view}`)
    await page.locator('.table, .empty-box, .node').first().waitFor()
    await expect.poll(() => wide(page)).toBeLessThanOrEqual(0)
  }
  expect(complaints).toEqual([])
  await context.close()
})
