// Messages stream in, as a model's do, and each change renders the message again.
const answers = [
  ['How do I plot a sine in Python?', 'Like this:', 'python', 'import numpy as np, matplotlib.pyplot as plt\nx = np.linspace(0, 6.3)\nplt.figure(figsize=(5, 2.4))\nplt.plot(x, np.sin(x))\nplt.show()\nprint("drawn")'],
  ['Ask me for my name in Python.', 'It waits for your answer:', 'python', 'name = input("Your name? ")\nprint(f"Hello, {name}!")'],
  ['And a table?', 'A data frame shows itself:', 'python', 'import pandas as pd\npd.DataFrame({"city": ["Oslo", "Lima"], "°C": [4, 19]})'],
  ['The same in JavaScript?', 'Any language that the server has:', 'javascript', 'for (const n of [1, 2, 3]) console.log(n, n ** 2)'],
  ['One that never ends?', 'Stop it when you like:', 'bash', 'while true; do date; sleep 0.2; done'],
  ['And one that fails?', 'The error comes first, the traceback below:', 'python', 'def f(n):\n    return 1 / n\n\nf(0)'],
]
const chat = document.getElementById('chat')
const element = (tag, name, text) => Object.assign(document.createElement(tag), { className: name, textContent: text })

async function say([question, text, language, code]) {
  chat.append(element('div', 'message user', question))
  const message = element('div', 'message', '')
  chat.append(message)
  const whole = `${text}\n${code}`
  for (let n = 8; n < whole.length + 8; n += 8) {
    const shown = whole.slice(0, n)
    const at = shown.indexOf('\n')
    const parts = [element('div', '', at < 0 ? shown : shown.slice(0, at))]
    if (at >= 0) {
      const pre = element('pre', '', '')
      pre.append(element('code', `language-${language}`, shown.slice(at + 1)))
      parts.push(pre)
    }
    message.replaceChildren(...parts)
    await new Promise((next) => setTimeout(next, 15))
  }
}

let next = 0
document.getElementById('ask').addEventListener('submit', (e) => {
  e.preventDefault()
  void say(answers[next++ % answers.length])
})
void (async () => {
  for (const a of answers) await say(a)
})()
