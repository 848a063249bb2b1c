package traffic

import (
	"context"
	"sync"
	"time"
)

// delayLine runs functions a fixed time after they were added, one at a time and in that order.
type delayLine struct {
	delay time.Duration
	added chan struct{}

	mu    sync.Mutex
	queue []delayed
}

type delayed struct {
	due time.Time
	do  func()
}

func newDelayLine(delay time.Duration) *delayLine {
	return &delayLine{delay: delay, added: make(chan struct{}, 1)}
}

// add queues do; it never blocks.
func (d *delayLine) add(do func()) {
	d.mu.Lock()
	d.queue = append(d.queue, delayed{due: time.Now().Add(d.delay), do: do})
	d.mu.Unlock()
	select {
	case d.added <- struct{}{}:
	default:
	}
}

// run runs what is due until the context ends.
func (d *delayLine) run(ctx context.Context) {
	for {
		next, ok := d.pop()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-d.added:
				continue
			}
		}
		timer := time.NewTimer(time.Until(next.due))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			next.do()
		}
	}
}

func (d *delayLine) pop() (delayed, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return delayed{}, false
	}
	next := d.queue[0]
	d.queue = d.queue[1:]
	return next, true
}
