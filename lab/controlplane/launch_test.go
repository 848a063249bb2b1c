package controlplane

import (
	"net"
	"testing"
)

func TestAComponentWhosePortIsTakenGetsAnother(t *testing.T) {
	lab, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Stop()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	lab.mu.Lock()
	lab.ports[KWOK] = taken.Addr().(*net.TCPAddr).Port
	lab.mu.Unlock()
	if err := lab.Restart(t.Context(), KWOK); err != nil {
		t.Fatal(err)
	}
	if lab.Address(KWOK) == taken.Addr().String() || lab.Pid(KWOK) == 0 {
		t.Errorf("KWOK is process %d at %s, want it to run on another port", lab.Pid(KWOK), lab.Address(KWOK))
	}
}
