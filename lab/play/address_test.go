package play

import "testing"

func TestAddressesAreUnique(t *testing.T) {
	a := newAddresses()
	a.reserve("100.64.0.2") // a pod of an earlier player has it
	a.reserve("not an address")
	a.reserve("10.0.0.1") // KWOK's
	seen := map[string]bool{}
	for range 300 {
		ip, err := a.allocate()
		if err != nil {
			t.Fatal(err)
		}
		if seen[ip] || ip == "100.64.0.2" {
			t.Fatalf("address %s was given out twice", ip)
		}
		seen[ip] = true
	}
	a.release("100.64.0.1")
	if ip, err := a.allocate(); err != nil || ip == "100.64.0.1" {
		t.Errorf("allocated %s, error %v; an address must not come back at once", ip, err)
	}
}

func TestLookup(t *testing.T) {
	a := newAddresses()
	a.set("100.64.0.1", route{8080: "127.0.0.1:1111", 9090: "127.0.0.1:2222"})
	a.set("100.64.0.2", route{0: "127.0.0.1:3333"})
	a.set("100.64.0.3", route{80: "127.0.0.1:4444"})
	a.unset("100.64.0.3", []int32{80})
	for _, test := range []struct {
		ip   string
		port int32
		want string
	}{
		{"100.64.0.1", 8080, "127.0.0.1:1111"},
		{"100.64.0.1", 9090, "127.0.0.1:2222"},
		{"100.64.0.1", 80, ""},
		{"100.64.0.2", 80, "127.0.0.1:3333"}, // it declares no port
		{"100.64.0.3", 80, ""},
		{"100.64.0.4", 80, ""},
	} {
		if got, ok := a.lookup(test.ip, test.port); got != test.want || ok != (test.want != "") {
			t.Errorf("lookup(%s, %d) = %q, %v; want %q", test.ip, test.port, got, ok, test.want)
		}
	}
}
