// Command screenshot writes a picture of Segue's rehearsal page, as a headless Chromium shows it: the picture of the
// README is made with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/picture"
)

type options struct {
	html, json, png, pdf, selector string
	look                           picture.Look
}

func main() {
	var o options
	flag.StringVar(&o.html, "html", "", "the HTML page to look at")
	flag.StringVar(&o.json, "json", "", "instead of a page: rehearsal documents, as `segue-lab rehearse -o json` prints them")
	flag.StringVar(&o.png, "png", "", "write a picture of the page to this file")
	flag.StringVar(&o.pdf, "pdf", "", "print the page to this file")
	flag.StringVar(&o.selector, "element", "", "CSS selector of the element to show; empty for the whole page")
	flag.IntVar(&o.look.Width, "width", 1280, "width of the window in CSS pixels")
	flag.Float64Var(&o.look.Scale, "scale", 2, "picture pixels a CSS pixel")
	flag.BoolVar(&o.look.Dark, "dark", false, "dark colours")
	flag.BoolVar(&o.look.Grey, "grey", false, "without colour")
	flag.BoolVar(&o.look.Print, "print", false, "the style of paper")
	flag.Parse()
	if flag.NArg() > 0 || (o.html == "") == (o.json == "") || (o.png == "") == (o.pdf == "") {
		fmt.Fprintln(os.Stderr, "give one of -html and -json, and one of -png and -pdf")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "screenshot:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.json != "" {
		folder, err := os.MkdirTemp("", "segue-page-")
		if err != nil {
			return fmt.Errorf("make a folder for the page: %w", err)
		}
		defer os.RemoveAll(folder)
		o.html = filepath.Join(folder, "page.html")
		if err := makePage(o.json, o.html); err != nil {
			return err
		}
	}
	path, err := picture.FindChromium()
	if err != nil {
		return err
	}
	browser, err := picture.Start(ctx, path)
	if err != nil {
		return err
	}
	defer browser.Close()
	page, err := browser.Open(o.html, o.look)
	if err != nil {
		return err
	}
	defer page.Close()
	file, take := o.png, func() ([]byte, error) { return page.PNG(o.selector) }
	if o.pdf != "" {
		file, take = o.pdf, page.PDF
	}
	data, err := take()
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// makePage turns a file of rehearsal documents into a page.
func makePage(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	docs, err := view.ReadJSON(in)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if err := view.HTML(out, docs); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
