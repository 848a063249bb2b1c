// What a demanding reader would complain about, as a list of sentences; empty when the page is right.
(() => {
  const problems = []
  const say = text => { if (problems.length < 40) problems.push(text) }
  const describe = element => element.tagName + '.' + (element.getAttribute('class') || '') + ' ' + (element.lastChild?.nodeValue || '').slice(0, 40)
  const slack = 0.75 // CSS pixels, for rounding

  // The layout holds: nothing makes the page itself scroll sideways.
  const page = document.documentElement
  if (page.scrollWidth > window.innerWidth + 1) say(`the page is ${page.scrollWidth} wide in a window of ${window.innerWidth}`)

  // Every shape of every strip has a size and lies inside the strip.
  const strips = [...document.querySelectorAll('svg.strip')]
  for (const strip of strips) {
    const box = strip.getBoundingClientRect()
    if (!(box.width > 0 && box.height > 0)) say(`a strip is ${box.width} by ${box.height}`)
    for (const shape of strip.querySelectorAll('rect, text, .mark, path.ready-line')) {
      const r = shape.getBoundingClientRect()
      const flat = shape.matches('path.ready-line') // a line that never changes has no height
      const size = shape.getBBox() // without the stroke, which gives even nothing a size
      if (!(size.width > 0 && (flat || size.height > 0))) say(`${describe(shape)} is ${size.width} by ${size.height}`)
      if (r.left < box.left - slack || r.right > box.right + slack || r.top < box.top - slack || r.bottom > box.bottom + slack)
        say(`${describe(shape)} at ${[r.left, r.top, r.right, r.bottom].map(Math.round)} leaves its strip ${[box.left, box.top, box.right, box.bottom].map(Math.round)}`)
    }
    // No label covers another one.
    const labels = [...strip.querySelectorAll('text')].map(t => ({t, r: t.getBoundingClientRect()}))
    labels.forEach((a, i) => labels.slice(i + 1).forEach(b => {
      const wide = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left)
      const high = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top)
      if (wide > slack && high > slack) say(`${describe(a.t)} covers ${describe(b.t)}`)
    }))
  }

  for (const scenario of document.querySelectorAll('section.scenario')) {
    const runs = [...scenario.querySelectorAll('.run')]
    if (!runs.length) continue
    // The legend is there and shows its signs.
    const entries = [...scenario.querySelectorAll('.legend li')]
    if (entries.length < 12) say(`${scenario.id} has a legend of ${entries.length} entries`)
    for (const entry of entries) {
      const sign = entry.querySelector('svg')?.getBoundingClientRect()
      if (!sign || !(sign.width > 0 && sign.height > 0) || !entry.textContent.trim()) say(`${scenario.id} has an empty entry in its legend`)
    }
    // All runs have the same time axis: the same labels at the same places, also below the run.
    const axes = [...scenario.querySelectorAll('.strip-axis')].map(axis =>
      [...axis.querySelectorAll('.t-tick')].map(t => ({text: t.textContent, x: t.getBoundingClientRect().left})))
    const same = (a, b) => a.length === b.length && a.every((tick, i) => tick.text === b[i].text && Math.abs(tick.x - b[i].x) < 1)
    if (!axes.every(axis => same(axis, axes[0]))) say(`${scenario.id} has different time axes`)
  }

  // A screen reader finds its way.
  for (const strip of strips) if (strip.getAttribute('role') !== 'img' || !strip.getAttribute('aria-label')) say('a strip has no role or no label')
  for (const cell of document.querySelectorAll('th')) if (!cell.getAttribute('scope')) say(`${describe(cell)} has no scope`)
  if (document.querySelectorAll('h1').length !== 1) say('the page has not exactly one h1')
  if (!document.title || !document.documentElement.lang) say('the page has no title or no language')

  // Nothing that could run or load.
  for (const element of document.querySelectorAll('script, img, iframe, object, embed, form, base')) say(`${describe(element)} has no business on this page`)
  return problems
})()
