package audit

import "testing"

func TestRequirementAllows(t *testing.T) {
	tests := []struct {
		operator string
		values   []string
		value    string
		want     bool
	}{
		{"In", []string{"4", "8"}, "8", true}, {"In", []string{"4"}, "8", false},
		{"NotIn", []string{"4"}, "8", true}, {"NotIn", []string{"4"}, "4", false},
		{"Exists", nil, "4", true}, {"DoesNotExist", nil, "4", false},
		{"Gt", []string{"4"}, "5", true}, {"Gt", []string{"4"}, "4", false},
		{"Lt", []string{"4"}, "3", true}, {"Lt", []string{"4"}, "4", false},
		{"Gte", []string{"4"}, "4", true}, {"Gte", []string{"4"}, "3", false},
		{"Lte", []string{"4"}, "4", true}, {"Lte", []string{"4"}, "5", false},
		{"Gt", []string{"4"}, "many", false},
	}
	for _, test := range tests {
		if got := (Requirement{Key: "k", Operator: test.operator, Values: test.values}).allows(test.value); got != test.want {
			t.Errorf("%s %v allows %s: %v, want %v", test.operator, test.values, test.value, got, test.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for size, want := range map[string]int{"large": 2, "xlarge": 4, "2xlarge": 8, "24xlarge": 96, "medium": 0, "metal": 0, "0xlarge": 0} {
		if got := cpuOfSize(size); got != want {
			t.Errorf("%s has %d vCPUs, want %d", size, got, want)
		}
	}
	// From the table of EKS: 60m of the first, 10m of the second, 5m each of the next two, 2.5m each of the rest.
	for cpus, want := range map[int]int64{1: 940, 2: 1930, 4: 3920, 8: 7910, 16: 15890} {
		if got := allocatable(cpus); got != want {
			t.Errorf("a node of %d vCPUs gives %dm, want %dm", cpus, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"burst", "burst", 0}, {"burst", "brust", 1}, {"burst", "bursts", 1}, {"agent", "agnet", 1}, {"web", "api", 3}} {
		if got := distance(test.a, test.b); got != test.want || distance(test.b, test.a) != test.want {
			t.Errorf("from %q to %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestPathsComeApart(t *testing.T) {
	path := joined([]string{"spec", "a.b/c", `q"x`, "", "containers"})
	want := []string{"spec", "a.b/c", `q"x`, "", "containers"}
	got := steps(path)
	if len(got) != len(want) {
		t.Fatalf("%s is %q", path, got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

func TestCron(t *testing.T) {
	for text, want := range map[string]bool{
		"0 8 * * 1-5": true, "@daily": true, "*/5 * * * *": true, "0 0 1 jan sun": true, "0 0,12 1-15 */2 ?": true,
		"": false, "0 8 * *": false, "60 * * * *": false, "0 0 0 * *": false, "0 0 * 13 *": false, "every day": false, "@never": false, "a;b * * * *": false,
	} {
		if got := isCron(text); got != want {
			t.Errorf("%q is a schedule: %v, want %v", text, got, want)
		}
	}
}
