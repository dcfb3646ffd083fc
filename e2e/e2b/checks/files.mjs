// Files and folders.
import { createHash, randomBytes } from 'node:crypto'
import { assert, e2b, fails, near, suite } from './kit.mjs'

const { FileType } = e2b
const check = suite('files')

check('write-and-read', ['Filesystem#write', 'Filesystem#read'], async (t) => {
  const s = await t.shared()
  const path = t.path('a/b.txt')
  const info = await s.files.write(path, 'hello ü\n')
  assert.equal(info.name, 'b.txt')
  assert.equal(info.path, path)
  assert.equal(info.type, 'file')
  assert.equal(await s.files.read(path), 'hello ü\n')
})

check('overwrite', ['Filesystem#write'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('x'), 'a longer text')
  await s.files.write(t.path('x'), 'short')
  assert.equal(await s.files.read(t.path('x')), 'short')
})

check('empty', ['Filesystem#write', 'Filesystem#read'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('empty'), '')
  assert.equal(await s.files.read(t.path('empty')), '')
  assert.equal((await s.files.read(t.path('empty'), { format: 'bytes' })).length, 0)
})

check('write-array-buffer', ['Filesystem#write', 'Filesystem#read(format)'], async (t) => {
  const s = await t.shared()
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  await s.files.write(t.path('x'), bytes.buffer)
  assert.deepEqual(await s.files.read(t.path('x'), { format: 'bytes' }), bytes)
})

check('write-blob', ['Filesystem#write', 'Filesystem#read(format)'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('x'), new Blob(['from a ', 'blob']))
  const blob = await s.files.read(t.path('x'), { format: 'blob' })
  assert.equal(await blob.text(), 'from a blob')
})

check('write-stream', ['Filesystem#write', 'Filesystem#read(format, streamIdleTimeoutMs)'],
  async (t) => {
    const s = await t.shared()
    const stream = new ReadableStream({
      start(c) {
        for (let i = 0; i < 100; i++) c.enqueue(new TextEncoder().encode(`line ${i}\n`))
        c.close()
      }
    })
    await s.files.write(t.path('x'), stream)
    let text = ''
    const back = await s.files.read(t.path('x'), { format: 'stream', streamIdleTimeoutMs: 5000 })
    for await (const part of back) text += new TextDecoder().decode(part)
    assert.equal(text.split('\n')[99], 'line 99')
  })

check('write-several', ['Filesystem#write'], async (t) => {
  const s = await t.shared()
  const infos = await s.files.write([
    { path: t.path('1.txt'), data: 'one' },
    { path: t.path('deep/2.txt'), data: new Blob(['two']) },
    { path: t.path('3.txt'), data: new TextEncoder().encode('three').buffer }
  ])
  assert.deepEqual(infos.map((i) => i.path), ['1.txt', 'deep/2.txt', '3.txt'].map((p) => t.path(p)))
  assert.equal(await s.files.read(t.path('deep/2.txt')), 'two')
  assert.equal(await s.files.read(t.path('3.txt')), 'three')
})

check('write-files', ['Filesystem#writeFiles'], async (t) => {
  const s = await t.shared()
  const infos = await s.files.writeFiles([
    { path: t.path('a'), data: 'a' }, { path: t.path('b'), data: 'b' }
  ])
  assert.equal(infos.length, 2)
  assert.deepEqual(await s.files.writeFiles([]), [])
  assert.equal(await s.files.read(t.path('b')), 'b')
})

check('octet-stream', ['Filesystem#write(useOctetStream)'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('x'), 'as it is', { useOctetStream: true })
  assert.equal(await s.files.read(t.path('x')), 'as it is')
})

check('gzip', ['Filesystem#write(gzip)', 'Filesystem#read(gzip)'], async (t) => {
  const s = await t.shared()
  const text = 'the same line again\n'.repeat(10_000)
  await s.files.write(t.path('x'), text, { gzip: true })
  assert.equal(await s.files.read(t.path('x')), text)
  assert.equal(await s.files.read(t.path('x'), { gzip: true }), text)
  assert.equal((await s.commands.run(`wc -c < ${t.path('x')}`)).stdout.trim(), String(text.length))
})

check('large', ['Filesystem#write', 'Filesystem#read'], async (t) => {
  const s = await t.shared()
  const bytes = randomBytes(20_000_000)
  const hash = createHash('sha256').update(bytes).digest('hex')
  await s.files.write(t.path('x'), new Blob([bytes]))
  const { stdout } = await s.commands.run(`sha256sum ${t.path('x')}`)
  assert.equal(stdout.split(' ')[0], hash)
  const back = await s.files.read(t.path('x'), { format: 'bytes' })
  assert.equal(createHash('sha256').update(back).digest('hex'), hash)
})

check('metadata', ['Filesystem#write(metadata)'], async (t) => {
  const s = await t.shared()
  await fails(s.files.write(t.path('x'), 'y', { metadata: { mine: '1' } }), e2b.TemplateError)
}, { refuses: 'files of a sandbox have no extended attributes' })

check('read-missing', ['Filesystem#read'], async (t) => {
  const s = await t.shared()
  await fails(s.files.read(t.path('nothing')), e2b.FileNotFoundError, /does not exist/)
})

check('read-folder', ['Filesystem#read'], async (t) => {
  const s = await t.shared()
  await fails(s.files.read('/tmp'), e2b.InvalidArgumentError)
})

check('relative', ['Filesystem#write', 'Filesystem#getInfo'], async (t) => {
  const s = await t.shared()
  await s.files.write('relative/x', 'y')
  assert.equal((await s.files.getInfo('relative/x')).path, '/home/user/relative/x')
  assert.equal(await s.files.read('/home/user/relative/x'), 'y')
})

check('home', ['Filesystem#getInfo'], async (t) => {
  const s = await t.shared()
  await s.files.write('in-home', 'y')
  assert.equal(await s.files.read('~/in-home'), 'y')
  assert.equal((await s.files.getInfo('~')).path, '/home/user')
})

check('odd-names', ['Filesystem#write', 'Filesystem#read', 'Filesystem#list'], async (t) => {
  const s = await t.shared()
  const names = ['a b', 'ü+%20&?#', '日本語', "quote'\"", '-dash', 'semi;colon']
  for (const name of names) {
    await s.files.write(t.path(name), name)
    assert.equal(await s.files.read(t.path(name)), name)
  }
  const list = await s.files.list(t.path())
  assert.deepEqual(list.map((e) => e.name).toSorted(), names.toSorted())
})

check('list', ['Filesystem#list'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('file'), '12345')
  await s.files.makeDir(t.path('folder/inner'))
  const list = await s.files.list(t.path())
  assert.deepEqual(list.map((e) => [e.name, e.type]).toSorted(),
    [['file', FileType.FILE], ['folder', FileType.DIR]])
  const file = list.find((e) => e.name === 'file')
  assert.equal(file.path, t.path('file'))
  assert.equal(file.size, 5)
  assert.equal(file.owner, 'user')
  assert.equal(file.group, 'user')
  near(file.modifiedTime.getTime(), Date.now(), 60_000)
})

check('list-depth', ['Filesystem#list(depth)'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('a/b/c'), 'x')
  const names = async (depth) =>
    (await s.files.list(t.path(), { depth })).map((e) => e.path.slice(t.path().length)).toSorted()
  assert.deepEqual(await names(1), ['/a'])
  assert.deepEqual(await names(2), ['/a', '/a/b'])
  assert.deepEqual(await names(3), ['/a', '/a/b', '/a/b/c'])
  await fails(s.files.list(t.path(), { depth: 0 }), e2b.InvalidArgumentError)
})

check('list-missing', ['Filesystem#list'], async (t) => {
  const s = await t.shared()
  await fails(s.files.list(t.path('nothing')), e2b.FileNotFoundError)
  await s.files.write(t.path('x'), '')
  await fails(s.files.list(t.path('x')), e2b.InvalidArgumentError)
})

check('make-dir', ['Filesystem#makeDir'], async (t) => {
  const s = await t.shared()
  assert.equal(await s.files.makeDir(t.path('a/b/c')), true)
  assert.equal(await s.files.makeDir(t.path('a/b/c')), false)
  assert.equal((await s.files.getInfo(t.path('a/b'))).type, FileType.DIR)
  await s.files.write(t.path('file'), '')
  await fails(s.files.makeDir(t.path('file')), e2b.InvalidArgumentError)
})

check('rename', ['Filesystem#rename'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('old'), 'text')
  const entry = await s.files.rename(t.path('old'), t.path('new/name'))
  assert.equal(entry.path, t.path('new/name'))
  assert.equal(entry.name, 'name')
  assert.equal(await s.files.read(t.path('new/name')), 'text')
  assert.equal(await s.files.exists(t.path('old')), false)
  await s.files.rename(t.path('new'), t.path('newer'))
  assert.equal(await s.files.exists(t.path('newer/name')), true)
  await fails(s.files.rename(t.path('nothing'), t.path('x')), e2b.FileNotFoundError)
})

check('remove', ['Filesystem#remove'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('d/e/f'), 'x')
  await s.files.remove(t.path('d/e/f'))
  assert.equal(await s.files.exists(t.path('d/e/f')), false)
  await s.files.write(t.path('d/e/f'), 'x')
  await s.files.remove(t.path('d'))
  assert.equal(await s.files.exists(t.path('d')), false)
  await s.files.remove(t.path('d'))
})

check('exists', ['Filesystem#exists'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('x'), '')
  assert.equal(await s.files.exists(t.path('x')), true)
  assert.equal(await s.files.exists(t.path()), true)
  assert.equal(await s.files.exists(t.path('y')), false)
  assert.equal(await s.files.exists('/etc/passwd'), true)
})

check('info', ['Filesystem#getInfo'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('x'), '#!/bin/sh\n')
  await s.commands.run(`chmod 750 ${t.path('x')}`)
  const info = await s.files.getInfo(t.path('x'))
  assert.equal(info.type, FileType.FILE)
  assert.equal(info.size, 10)
  assert.equal(info.mode & 0o777, 0o750)
  assert.equal(info.permissions, '-rwxr-x---')
  assert.equal(info.symlinkTarget, undefined)
  const folder = await s.files.getInfo('/tmp')
  assert.equal(folder.type, FileType.DIR)
  await fails(s.files.getInfo(t.path('nothing')), e2b.FileNotFoundError)
})

check('symlinks', ['Filesystem#getInfo', 'Filesystem#list'], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('target'), 'text')
  await s.commands.run(`cd ${t.path()} && ln -s target live && ln -s nowhere dead`)
  const live = await s.files.getInfo(t.path('live'))
  assert.equal(live.type, FileType.FILE)
  assert.equal(live.symlinkTarget, t.path('target'))
  const dead = (await s.files.list(t.path())).find((e) => e.name === 'dead')
  assert.equal(dead.type, FileType.SYMLINK)
  assert.equal(await s.files.read(t.path('live')), 'text')
})

check('not-allowed', ['Filesystem#write', 'Filesystem#remove'], async (t) => {
  const s = await t.shared()
  await fails(s.files.write('/etc/passwd', 'x'))
  await fails(s.files.remove('/etc/passwd'))
  assert.match(await s.files.read('/etc/passwd'), /root/)
})

check('user', ['Filesystem#write(user)', 'Filesystem#read(user)', 'Filesystem#list(user)'],
  async (t) => {
    const s = await t.shared()
    await s.files.write(t.path('x'), 'y', { user: 'user' })
    assert.equal(await s.files.read(t.path('x'), { user: 'user' }), 'y')
    assert.equal((await s.files.list(t.path(), { user: 'user' })).length, 1)
    await fails(s.files.read(t.path('x'), { user: 'nobody-here' }), e2b.AuthenticationError)
    await fails(s.files.list(t.path(), { user: 'nobody-here' }), e2b.AuthenticationError)
  })

check('user-root', ['Filesystem#write(user root)'], async (t) => {
  const s = await t.shared()
  await fails(s.files.write('/root/x', 'y', { user: 'root' }))
}, { refuses: 'files are never written as root' })

check('request-options', ['Filesystem#read(requestTimeoutMs, signal)'], async (t) => {
  const s = await t.shared()
  const options = { requestTimeoutMs: 10_000, signal: AbortSignal.timeout(10_000) }
  await s.files.write(t.path('x'), 'y', options)
  assert.equal(await s.files.read(t.path('x'), options), 'y')
  await s.files.list(t.path(), options)
  await fails(s.files.read(t.path('x'), { signal: AbortSignal.abort() }), undefined, /abort/i)
})

check('many-at-once', ['Filesystem#write'], async (t) => {
  const s = await t.shared()
  await Promise.all(Array.from({ length: 40 }, (_, i) => s.files.write(t.path(`f${i}`), `${i}`)))
  assert.equal((await s.files.list(t.path())).length, 40)
  const all = await Promise.all(Array.from({ length: 40 }, (_, i) => s.files.read(t.path(`f${i}`))))
  assert.deepEqual(all, Array.from({ length: 40 }, (_, i) => `${i}`))
})

check('of-commands', ['Filesystem#read', 'Commands#run'], async (t) => {
  const s = await t.shared()
  await s.commands.run(`mkdir -p ${t.path()} && seq 5 > ${t.path('x')}`)
  assert.equal(await s.files.read(t.path('x')), '1\n2\n3\n4\n5\n')
  await s.files.write(t.path('x.sh'), 'echo ran "$1"')
  assert.equal((await s.commands.run(`bash ${t.path('x.sh')} it`)).stdout, 'ran it\n')
})

check('watch-entries', ['Filesystem#watchDir(includeEntry)'], async (t) => {
  const s = await t.shared()
  await fails(s.files.watchDir('/tmp', () => {}, { includeEntry: true }), e2b.TemplateError)
}, { refuses: 'events name the entry, and do not describe it' })

check('watch-network-mounts', ['Filesystem#watchDir(allowNetworkMounts)'], async (t) => {
  const s = await t.shared()
  await fails(s.files.watchDir('/tmp', () => {}, { allowNetworkMounts: true }), e2b.TemplateError)
}, { refuses: 'a sandbox has no mounts of other machines' })
