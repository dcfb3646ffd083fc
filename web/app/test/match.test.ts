import { describe, expect, it } from 'vitest'
import { match } from '../src/palette/match'
import type { Entry } from '../src/ui/palette'

const entry = (kind: Entry['kind'], name: string, o: Partial<Entry> = {}): Entry => ({ id: name, kind, name, run: () => {}, ...o })
const all = [
  entry('Command', 'Stop running cells', { words: 'interrupt cancel' }), entry('Command', 'Restart the kernel…'), entry('Setting', 'Theme: Dark', { words: 'appearance' }),
  entry('File', 'report.md', { words: 'docs/report.md', note: 'docs' }), entry('Session', 'Daily report', { words: 's_abc team=red' }), entry('Command', 'Run all cells'),
]
const names = (text: string) => match(all, text).map((e) => e.name)

describe('match', () => {
  it('lists all without a text, commands first', () => {
    expect(names('')).toEqual(['Stop running cells', 'Restart the kernel…', 'Run all cells', 'Theme: Dark', 'report.md', 'Daily report'])
  })

  it('finds names, other words, folders, labels and kinds', () => {
    expect(names('interrupt')).toEqual(['Stop running cells'])
    expect(names('dark')).toEqual(['Theme: Dark'])
    expect(names('docs/rep')).toEqual(['report.md'])
    expect(names('TEAM=red')).toEqual(['Daily report'])
    expect(names('session')).toEqual(['Daily report'])
    expect(names('nothing like it')).toEqual([])
  })

  it('puts the best first', () => {
    expect(names('report')).toEqual(['report.md', 'Daily report'])
    expect(names('run')).toEqual(['Run all cells', 'Stop running cells'])
    expect(names('rtk')).toEqual(['Restart the kernel…'])
  })
})
