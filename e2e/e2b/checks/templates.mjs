// The template builder.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assert, e2b, fails, refused, suite, until } from './kit.mjs'

const { Template, waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL } = e2b
const check = suite('templates', { timeout: 900_000 })

function name(t) {
  return t.check.name.replace('/', '-') + '-' + Math.random().toString(36).slice(2, 10)
}

// folder is a folder of this machine with a file, until the check has ended.
function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'sandgate-e2b-'))
  t.defer(async () => rmSync(path, { recursive: true }))
  writeFileSync(join(path, 'copied.txt'), 'from the folder')
  return path
}

check('build', ['Template.build(onBuildLogs)', 'Template#fromTemplate', 'Template#runCmd',
  'Template#setEnvs', 'Template#makeDir'], async (t) => {
  const logs = []
  const template = Template()
    .fromTemplate('base')
    .setEnvs({ OF_TEMPLATE: 'yes' })
    .makeDir('/home/user/made')
    .runCmd('echo built > /home/user/made/file')
  const info = await Template.build(template, name(t), { onBuildLogs: (e) => logs.push(e.message) })
  assert.ok(info.templateId && info.buildId)
  const s = await t.fresh(info.name)
  assert.equal(await s.files.read('/home/user/made/file'), 'built\n')
  assert.equal((await s.commands.run('echo $OF_TEMPLATE')).stdout, 'yes\n')
  assert.ok(logs.length > 0)
})

check('copy', ['Template#copy', 'Template#copyItems', 'Template#rename', 'Template#remove',
  'Template#makeSymlink', 'Template#setWorkdir', 'Template#setUser'], async (t) => {
  const template = Template({ fileContextPath: folder(t) })
    .fromTemplate('base')
    .setUser('user')
    .setWorkdir('/home/user')
    .copy('copied.txt', '/home/user/one.txt')
    .copyItems([{ src: 'copied.txt', dest: '/home/user/two.txt' }])
    .rename('/home/user/two.txt', '/home/user/three.txt')
    .makeSymlink('/home/user/one.txt', '/home/user/link')
    .copy('copied.txt', '/home/user/gone.txt')
    .remove('/home/user/gone.txt')
  const info = await Template.build(template, name(t))
  const s = await t.fresh(info.templateId)
  assert.equal(await s.files.read('one.txt'), 'from the folder')
  assert.equal(await s.files.read('three.txt'), 'from the folder')
  assert.equal(await s.files.read('link'), 'from the folder')
  assert.equal(await s.files.exists('gone.txt'), false)
})

check('start-command', ['Template#setStartCmd', 'ReadyCmd#getCmd'], async (t) => {
  const template = Template()
    .fromTemplate('base')
    .setStartCmd('python3 -m http.server 8000', waitForPort(8000))
  const info = await Template.build(template, name(t))
  const s = await t.fresh(info.name)
  assert.match((await s.commands.run('curl -s localhost:8000')).stdout, /Directory listing/)
})

check('ready-command', ['Template#setReadyCmd'], async (t) => {
  const template = Template().fromTemplate('base').setReadyCmd('test -d /home/user')
  const info = await Template.build(template, name(t))
  assert.equal(await (await t.fresh(info.name)).isRunning(), true)
})

check('failing-command', ['Template.build'], async (t) => {
  const template = Template().fromTemplate('base').runCmd('echo so it is; exit 3')
  await fails(Template.build(template, name(t)), e2b.BuildError)
})

check('background', ['Template.buildInBackground', 'Template.getBuildStatus(logsOffset)'],
  async (t) => {
    const template = Template().fromTemplate('base').runCmd('sleep 1')
    const info = await Template.buildInBackground(template, name(t))
    let status
    await until('the build ends', async () => {
      status = await Template.getBuildStatus(info, { logsOffset: 0 })
      return status.status !== 'building' && status.status !== 'waiting'
    }, 120_000)
    assert.equal(status.status, 'ready')
    assert.equal(status.buildID, info.buildId)
  })

check('exists', ['Template.exists', 'Template.aliasExists'], async () => {
  assert.equal(await Template.exists('base'), true)
  assert.equal(await Template.aliasExists('base'), true)
  assert.equal(await Template.exists('no-such-template'), false)
})

check('tags', ['Template.assignTags', 'Template.removeTags', 'Template.getTags',
  'Template.build(tags)'], async (t) => {
  const key = name(t)
  const info = await Template.build(Template().fromTemplate('base').runCmd('true'), key, {
    tags: ['v1']
  })
  const tags = async () => (await Template.getTags(info.templateId)).map((x) => x.tag)
  await Template.assignTags(`${key}:v1`, ['stable'])
  assert.ok((await tags()).includes('v1') && (await tags()).includes('stable'), await tags())
  assert.equal(await (await t.fresh(`${key}:stable`)).isRunning(), true)
  await Template.removeTags(key, 'stable')
  assert.ok(!(await tags()).includes('stable'))
  await fails(e2b.Sandbox.create(`${key}:stable`))
})

check('unknown-base', ['Template#fromTemplate'], async (t) => {
  await fails(Template.build(Template().fromTemplate('no-such-template'), name(t)))
})

// Images of registries cannot be unpacked without root, and sandboxes have no network to fetch them.
const registries = {
  fromDebianImage: [], fromUbuntuImage: [], fromFedoraImage: [], fromAlpineImage: [],
  fromArchImage: [], fromPythonImage: [], fromNodeImage: [], fromBunImage: [],
  fromImage: ['debian:13'],
  fromAWSRegistry: ['x.example.com/i', { accessKeyId: 'a', secretAccessKey: 'b', region: 'c' }],
  fromGCPRegistry: ['gcr.io/x/i', { serviceAccountJSON: {} }]
}
check('registry-images', Object.keys(registries).map((m) => `Template#${m}`), async (t) => {
  for (const [method, args] of Object.entries(registries)) {
    await refused(Template.build(Template()[method](...args), name(t)))
  }
}, { refuses: 'a template begins with one of the server, and not with an image of a registry' })

check('base-image', ['Template#fromBaseImage', 'Template#skipCache'], async (t) => {
  const template = Template().skipCache().fromBaseImage().runCmd('true')
  const info = await Template.build(template, name(t), { skipCache: true })
  assert.equal(await (await t.fresh(info.name)).isRunning(), true)
})

check('dockerfile', ['Template#fromDockerfile', 'Template.toDockerfile', 'Template.toJSON'],
  async () => {
    const template = Template().fromDockerfile('FROM python:3.13\nRUN echo x\nENV A=b')
    assert.match(Template.toDockerfile(template), /FROM python:3.13/)
    assert.match(await Template.toJSON(template), /python:3.13/)
  })

check('ready-commands', ['ReadyCmd#getCmd'], async () => {
  for (const ready of [waitForPort(1), waitForURL('http://x'), waitForProcess('x'),
    waitForFile('/x'), waitForTimeout(1000)]) {
    assert.ok(ready.getCmd().length > 0)
  }
})

// The builder turns these into commands. A build only reaches what the server lets sandboxes reach.
check('packages', ['Template#pipInstall', 'Template#npmInstall', 'Template#gitClone'], async (t) => {
  const template = Template().fromTemplate('base')
    .pipInstall(['requests']).npmInstall(['left-pad']).gitClone('https://example.com/a.git')
  const json = await Template.toJSON(template)
  for (const command of ['pip install', 'npm install', 'git clone']) {
    assert.ok(json.includes(command), command)
  }
  const clone = Template().fromTemplate('base')
    .runCmd('git init -q /home/user/origin && cd /home/user/origin && ' +
      'git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first')
    .gitClone('/home/user/origin', '/home/user/clone')
  const s = await t.fresh((await Template.build(clone, name(t))).name)
  assert.equal(await s.files.exists('/home/user/clone/.git'), true)
})

check('apt', ['Template#aptInstall', 'Template#bunInstall'], async (t) => {
  await fails(Template.build(Template().fromTemplate('base').aptInstall('cowsay'), name(t)))
  await fails(Template.build(Template().fromTemplate('base').bunInstall('left-pad'), name(t)))
}, { refuses: 'the image has neither apt nor bun, and commands are not run as root' })

check('mcp-servers', ['Template#addMcpServer', 'Template#betaDevContainerPrebuild',
  'Template#betaSetDevContainerStart'], async (t) => {
  await fails(Template.build(Template().fromTemplate('mcp-gateway').addMcpServer('time'), name(t)))
  await fails(Template.build(
    Template().fromTemplate('devcontainer').betaDevContainerPrebuild('/x'), name(t)))
  await fails(Template.build(
    Template().fromTemplate('devcontainer').betaSetDevContainerStart('/x'), name(t)))
}, { refuses: 'there are no templates mcp-gateway and devcontainer' })
