package resourceversion

import "testing"

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		order int
	}{
		{"1", "1", 0},
		{"9", "10", -1},
		{"10", "9", 1},
		{"11", "12", -1},
		{"99999999999999999999998", "99999999999999999999999", -1}, // more than 64 bits
	} {
		if order, err := Compare(c.a, c.b); err != nil || order != c.order {
			t.Errorf("Compare(%q, %q) = %d, %v, want %d", c.a, c.b, order, err, c.order)
		}
	}
	for _, version := range []string{"", "0", "01", "-1", "1a", "a1", "1 2", "1.5"} {
		for _, pair := range [][2]string{{version, "1"}, {"1", version}} {
			order, err := Compare(pair[0], pair[1])
			if want := "resource version is not well formed: " + version; err == nil || err.Error() != want {
				t.Errorf("Compare%q = %d, %v, want error %q", pair, order, err, want)
			}
		}
	}
}
