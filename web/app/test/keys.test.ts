import { describe, expect, it } from 'vitest'
import { commands } from '../src/notebook/commands'
import { chord, commandKeys, editKeys, isEditors, Keys } from '../src/notebook/keys'

const press = (key: string, m: { ctrl?: boolean; shift?: boolean; alt?: boolean; meta?: boolean } = {}) =>
  chord({ key, ctrlKey: !!m.ctrl, shiftKey: !!m.shift, altKey: !!m.alt, metaKey: !!m.meta })

describe("Jupyter's keys", () => {
  it.each([
    ['a', {}, 'insert-above'], ['b', {}, 'insert-below'], ['x', {}, 'cut'], ['c', {}, 'copy'], ['v', {}, 'paste-below'], ['V', { shift: true }, 'paste-above'],
    ['z', {}, 'undo'], ['y', {}, 'to-code'], ['m', {}, 'to-markdown'], ['r', {}, 'to-raw'], ['1', {}, 'heading-1'], ['M', { shift: true }, 'merge'],
    ['j', {}, 'down'], ['k', {}, 'up'], ['J', { shift: true }, 'extend-down'], ['ArrowUp', { shift: true }, 'extend-up'], ['Enter', {}, 'edit'],
    ['Enter', { shift: true }, 'run-next'], ['Enter', { ctrl: true }, 'run'], ['Enter', { meta: true }, 'run'], ['Enter', { alt: true }, 'run-insert'],
    ['s', { ctrl: true }, 'save'], ['P', { ctrl: true, shift: true }, 'palette'], ['h', {}, 'help'], ['?', { shift: true }, 'help'], [' ', {}, 'scroll-down'],
    ['o', {}, 'fold-output'], ['O', { shift: true }, 'scroll-output'], ['L', { shift: true }, 'line-numbers'], ['a', { ctrl: true }, 'select-all'],
  ] as const)('%s %j', (key, m, want) => {
    expect(new Keys().match(commandKeys, press(key, m), 0)).toBe(want)
  })

  it('knows pairs within a second, and only those', () => {
    for (const [key, want] of [['d', 'delete'], ['0', 'restart'], ['i', 'interrupt']] as const) {
      const k = new Keys()
      expect(k.match(commandKeys, press(key), 0)).toBe('pending')
      expect(k.match(commandKeys, press(key), 900)).toBe(want)
      expect(k.match(commandKeys, press(key), 2000)).toBe('pending')
      expect(k.match(commandKeys, press(key), 3001)).toBe('pending')
      expect(k.match(commandKeys, press('a'), 3002)).toBe('insert-above')
      expect(k.match(commandKeys, press(key), 3003)).toBe('pending')
    }
  })

  it('leaves letters to the editor', () => {
    for (const key of 'abcdxyz') expect(new Keys().match(editKeys, press(key), 0)).toBeUndefined()
    expect(new Keys().match(editKeys, press('_', { ctrl: true, shift: true }), 0)).toBe('split')
  })

  it('leaves to Vim and Emacs what they need, and to a Mac its Command keys', () => {
    for (const [keys, press, want] of [['standard', 'Mod+F', false], ['vim', 'Mod+F', true], ['emacs', 'Mod+K', true], ['vim', 'Mod+K', false]] as const) {
      expect(isEditors(keys, press, { metaKey: false })).toBe(want)
      expect(isEditors(keys, press, { metaKey: true })).toBe(false)
    }
  })

  it('has a command for every key', () => {
    for (const name of [...commandKeys.values(), ...editKeys.values()]) expect(commands()[name], name).toBeDefined()
  })
})
