// Package labtest starts labs for tests: one for a single test, or one that all tests of a package share.
//
// A test that needs a cluster of its own calls Start. A package whose tests can live side by side, each in a namespace
// of its own, calls Main from TestMain and Shared in its tests, which costs one start.
package labtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/segue-dev/segue/lab/controlplane"
)

// startTimeout bounds a start on a machine that is busy with other tests.
const startTimeout = 3 * time.Minute

// Start starts a lab that ends with the test. The test fails at once when that is not possible, for example because the
// segue-lab binary is missing: run `make build`.
func Start(t testing.TB, o controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	lab, err := controlplane.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case err := <-lab.Died():
			t.Errorf("a component of the lab ended during the test: %v", err)
		default:
		}
		if err := lab.Stop(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// shared is the lab of the package under test, started by the first test that asks for it.
var shared struct {
	once    sync.Once
	options controlplane.Options
	lab     *controlplane.ControlPlane
	err     error
}

// Main runs the tests of a package with a lab that they share, and is all that TestMain needs:
//
//	func TestMain(m *testing.M) { labtest.Main(m, controlplane.Options{}) }
//
// The lab starts when the first test calls Shared and ends after the last test.
func Main(m *testing.M, o controlplane.Options) {
	shared.options = o
	code := m.Run()
	if shared.lab != nil {
		if err := shared.lab.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Shared is the lab that all tests of the package share. They must not kill its components, and each keeps to namespaces
// and nodes of its own.
func Shared(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		shared.lab, shared.err = controlplane.Start(ctx, shared.options)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.lab
}
