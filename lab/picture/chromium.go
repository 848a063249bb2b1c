// Package picture looks at Segue's HTML page in a real headless Chromium: for the tests that check what a reader really
// sees, and for screenshots. It lives in the lab module so that the root module does not link a browser driver. It
// loads files only and must never let the browser reach a network.
package picture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// EnvChromium names the environment variable with the path of the browser to use.
const EnvChromium = "SEGUE_CHROMIUM"

// ErrNoChromium is returned by FindChromium when there is no browser on the machine.
var ErrNoChromium = errors.New("no Chromium found: install Debian's package chromium, or set " + EnvChromium + " to a Chromium or Chrome binary")

// FindChromium returns the path of a Chromium: $SEGUE_CHROMIUM, else the first of chromium, chromium-browser and
// google-chrome on PATH. It fails with ErrNoChromium, or with the reason why $SEGUE_CHROMIUM cannot be run.
func FindChromium() (string, error) {
	if path := os.Getenv(EnvChromium); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("use %s=%q: %w", EnvChromium, path, err)
		}
		return found, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoChromium
}

// Browser is a running headless Chromium with a profile of its own.
type Browser struct {
	ctx     context.Context
	cancel  func()
	profile string
}

// Start starts the Chromium at path; it ends with Close or when ctx ends.
func Start(ctx context.Context, path string) (*Browser, error) {
	profile, err := os.MkdirTemp("", "segue-chromium-")
	if err != nil {
		return nil, fmt.Errorf("make a profile folder for Chromium: %w", err)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(profile),
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("font-render-hinting", "none"),
	}
	if os.Geteuid() == 0 {
		// Chromium's sandbox refuses to run as root; the pages are our own files.
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(ctx, options...)
	tab, stopTab := chromedp.NewContext(allocator)
	b := &Browser{ctx: tab, profile: profile, cancel: func() { stopTab(); stopAllocator() }}
	if err := chromedp.Do(tab); err != nil {
		return nil, errors.Join(fmt.Errorf("start Chromium %q: %w", path, err), b.Close())
	}
	return b, nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	// A browser that was already gone has nothing to say about its end.
	ctx, stop := context.WithTimeout(b.ctx, 10*time.Second)
	_ = chromedp.Cancel(ctx)
	stop()
	b.cancel()
	if err := os.RemoveAll(b.profile); err != nil {
		return fmt.Errorf("remove Chromium's profile folder: %w", err)
	}
	return nil
}

// Look is how a page is looked at.
type Look struct {
	// Width of the window in CSS pixels; 0 means 1280.
	Width int
	// Scale is the number of picture pixels a CSS pixel; 0 means 1.
	Scale float64
	// Dark asks for the dark colours, Print for the style of paper, Grey takes all colour away.
	Dark, Print, Grey bool
}

// Page is a file that is open in the browser. What it asked for and complained about is recorded from the first byte.
type Page struct {
	ctx    context.Context
	cancel func()

	mu        sync.Mutex
	requests  []string
	complains []string
}

// pageTimeout bounds everything that is done with one page.
const pageTimeout = 3 * time.Minute

// Open loads the HTML file at path in a new tab. Close the page when done.
func (b *Browser) Open(path string, look Look) (*Page, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open page %q: %w", path, err)
	}
	if _, err := os.Stat(full); err != nil {
		return nil, fmt.Errorf("open page: %w", err)
	}
	tab, stopTab := chromedp.NewContext(b.ctx)
	ctx, stopTimer := context.WithTimeout(tab, pageTimeout)
	p := &Page{ctx: ctx, cancel: func() { stopTimer(); stopTab() }}
	if err := p.open("file://"+full, look); err != nil {
		p.Close()
		return nil, fmt.Errorf("open page %q in Chromium: %w", path, err)
	}
	return p, nil
}

// open listens before it loads, so that nothing the page does is missed.
func (p *Page) open(address string, look Look) error {
	if err := chromedp.Listen(p.ctx, p.record); err != nil {
		return err
	}
	if _, err := chromedp.Call(p.ctx, network.Enable, network.EnableParams{}); err != nil {
		return err
	}
	if _, err := chromedp.Call(p.ctx, cdplog.Enable, cdp.Empty{}); err != nil {
		return err
	}
	if err := look.apply(p.ctx); err != nil {
		return err
	}
	return chromedp.Do(p.ctx, chromedp.Navigate(address))
}

// apply sets a tab up for a look.
func (l Look) apply(ctx context.Context) error {
	size := emulation.SetDeviceMetricsOverrideParams{Width: int64(l.Width), Height: 900, DeviceScaleFactor: l.Scale}
	if size.Width == 0 {
		size.Width = 1280
	}
	if size.DeviceScaleFactor == 0 {
		size.DeviceScaleFactor = 1
	}
	scheme, media, sight := "light", "", emulation.SetEmulatedVisionDeficiencyTypeNone
	if l.Dark {
		scheme = "dark"
	}
	if l.Print {
		media = "print"
	}
	if l.Grey {
		sight = emulation.SetEmulatedVisionDeficiencyTypeAchromatopsia
	}
	if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		return err
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedVisionDeficiency, emulation.SetEmulatedVisionDeficiencyParams{Type: sight})
	return err
}

// record keeps what the browser reports about the page. Data URLs are part of the page, not requests.
func (p *Page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "data:") {
			p.requests = append(p.requests, e.Request.URL)
		}
	case *runtime.EventConsoleAPICalled:
		p.complains = append(p.complains, fmt.Sprintf("console.%s with %d arguments", e.Type, len(e.Args)))
	case *runtime.EventExceptionThrown:
		p.complains = append(p.complains, "exception: "+e.ExceptionDetails.Text)
	case *cdplog.EventEntryAdded:
		p.complains = append(p.complains, string(e.Entry.Level)+": "+e.Entry.Text)
	}
}

// Requests are the addresses that were asked for, the page's own file among them.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Complaints are the messages of the console: errors, warnings, exceptions and output.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.complains...)
}

// Ask evaluates a JavaScript expression in the page and returns its value.
func Ask[T any](p *Page, expression string) (T, error) {
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		return value, fmt.Errorf("ask the page: %w", err)
	}
	return value, nil
}

// PNG is a picture of the whole page, or of the first element that selector finds when it is not empty.
func (p *Page) PNG(selector string) ([]byte, error) {
	if selector == "" {
		selector = "html"
	}
	box, err := Ask[*page.Viewport](p, `(() => {
		const element = document.querySelector(`+strconv.Quote(selector)+`)
		if (!element) return null
		const r = element.getBoundingClientRect()
		return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1}
	})()`)
	if err != nil {
		return nil, err
	}
	if box == nil {
		return nil, fmt.Errorf("take a screenshot: nothing on the page matches %q", selector)
	}
	beyond := true
	shot, err := chromedp.Call(p.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: box, CaptureBeyondViewport: &beyond})
	if err != nil {
		return nil, fmt.Errorf("take a screenshot of %q: %w", selector, err)
	}
	return shot.Data, nil
}

// PDF prints the page with the paper size that its own style asks for.
func (p *Page) PDF() ([]byte, error) {
	pdf, err := chromedp.Run(p.ctx, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize(), chromedp.PDFPrintBackground()))
	if err != nil {
		return nil, fmt.Errorf("print to PDF: %w", err)
	}
	return pdf, nil
}

// Close closes the tab.
func (p *Page) Close() { p.cancel() }
