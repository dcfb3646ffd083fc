import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { packageOf, parseEnv, parseVolumes } from '../src/home/new-template'
import { tar } from '../src/home/tar'

it('makes archives that tar reads', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'sandgate-tar-'))
  try {
    const long = `packages/${'p'.repeat(87)}.whl`
    const made = tar([{ name: 'template.json', content: new Blob(['{"a":1}']) }, { name: long, content: new Blob(['x'.repeat(1024)]) }, { name: 'empty', content: new Blob([]) }])
    writeFileSync(join(dir, 'a.tar'), new Uint8Array(await made.arrayBuffer()))
    const run = (...args: string[]) => execFileSync('tar', args, { cwd: dir, encoding: 'utf8' })
    expect(run('-tf', 'a.tar').trim().split('\n')).toEqual(['template.json', long, 'empty'])
    expect(run('-xOf', 'a.tar', 'template.json')).toBe('{"a":1}')
    expect(run('-xOf', 'a.tar', long)).toBe('x'.repeat(1024))
    expect(() => tar([{ name: 'n'.repeat(101), content: new Blob([]) }])).toThrow('over 100 bytes')
  } finally {
    rmSync(dir, { recursive: true })
  }
})

it('knows packages by their files', () => {
  expect(packageOf('tinydb-4.8.0-py3-none-any.whl')).toEqual({ manager: 'python', name: 'tinydb' })
  expect(packageOf('typing_extensions-4.12.2.tar.gz')).toEqual({ manager: 'python', name: 'typing-extensions' })
  expect(packageOf('left-pad-1.3.0.tgz')).toEqual({ manager: 'javascript', name: 'left-pad' })
  expect(packageOf('gson-2.11.0.jar')).toEqual({ manager: 'java', name: 'gson-2.11.0.jar' })
  for (const none of ['notes.txt', '-x.jar', 'x.whl', 'a.tgz']) expect(packageOf(none), none).toBeUndefined()
})

it('reads volumes, and says which line is none', () => {
  expect(parseVolumes('a\n\n b:/data\nc::ro\nd_1.x:/home/user/d:ro\ne:/e:rw')).toEqual([
    { name: 'a' }, { name: 'b', path: '/data' }, { name: 'c', read_only: true }, { name: 'd_1.x', path: '/home/user/d', read_only: true }, { name: 'e', path: '/e' },
  ])
  for (const none of ['-a', 'a:b', 'a:/b:x', 'a b']) expect(() => parseVolumes(none), none).toThrow('is not a volume')
})

it('reads an environment, and says which line is none', () => {
  expect(parseEnv('A=1\n\n B_2=x=y \n')).toEqual({ A: '1', B_2: 'x=y ' })
  expect(() => parseEnv('A=1\nno value')).toThrow('“no value” is not of the form NAME=value')
})
