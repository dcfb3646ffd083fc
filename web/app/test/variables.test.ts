import { expect, it } from 'vitest'
import { grouped, kindOfVariable } from '../src/notebook/variablekinds'

it('groups variables by their types, and finds them by name, type and value', () => {
  expect(['int', 'DataFrame', 'str', 'Object', '[]int', 'functional'].map(kindOfVariable)).toEqual(Array(6).fill('value'))
  expect(['function', 'type', 'Function', 'func(int) int', 'builtin_function_or_method'].map(kindOfVariable)).toEqual(Array(5).fill('function'))
  expect(kindOfVariable('module')).toBe('module')
  const all = [{ name: 'rate', type: 'float', value: '0.19' }, { name: 'math', type: 'module', value: '<module>' }, { name: 'area', type: 'function', value: 'area(w)' }]
  expect(Object.values(grouped(all, '')).map((l) => l.map((v) => v.name))).toEqual([['rate'], ['area'], ['math']])
  expect(Object.values(grouped(all, 'FLOAT 0.1')).map((l) => l.length)).toEqual([1, 0, 0])
})
