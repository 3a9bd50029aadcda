// Puts what the run sends into its place. The charts come as they are to be shown; texts in them are escaped where they are made.

const state = document.getElementById('state');
const pause = document.getElementById('pause');
const now = document.getElementById('now');
const report = document.getElementById('report');
// This often in a row nothing answers before the run counts as over. The browser asks again each second.
const MISSES_MAX = 3;

let source;
let last = '';
let misses = 0;
let isPaused = false;

function show(text, kind) {
  state.textContent = text;
  state.className = kind;
}

function follow() {
  source = new EventSource('/events');
  source.addEventListener('open', () => {
    misses = 0;
    show(isPaused ? 'paused' : 'live', 'live');
  });
  source.addEventListener('now', (event) => {
    last = event.data;
    if (!isPaused) draw();
  });
  source.addEventListener('report', (event) => {
    document.getElementById('cases').hidden = false;
    report.src = `/report?${event.data}`;
  });
  // Each answer ends, which is no news; one that does not come is.
  source.addEventListener('error', () => {
    misses += 1;
    if (misses > MISSES_MAX) show('the run has ended, or does not answer', 'ended');
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 1000);
  });
}

function draw() {
  const parsed = new DOMParser().parseFromString(last, 'text/html');
  now.replaceChildren(...parsed.body.childNodes);
  document.title = `${now.querySelector('h2').textContent} · Parshall`;
}

function togglePause() {
  isPaused = !isPaused;
  pause.setAttribute('aria-pressed', isPaused);
  pause.textContent = isPaused ? 'Go on' : 'Pause';
  show(isPaused ? 'paused' : 'live', 'live');
  if (!isPaused && last) draw();
}

// As high as what it shows, so that the page has one scroll bar.
report.addEventListener('load', () => {
  const content = report.contentDocument;
  if (content) report.style.height = `${content.documentElement.scrollHeight + 2}px`;
});
pause.addEventListener('click', togglePause);
document.addEventListener('keydown', (event) => {
  if (event.code === 'Space' && event.target === document.body) {
    event.preventDefault();
    togglePause();
  }
});

follow();
