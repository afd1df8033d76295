package health

import "testing"

func TestStoppedFileSystem(t *testing.T) {
	for _, c := range []struct {
		is       mountPoint
		attached bool // read-only
		want     bool
	}{
		{is: mountPoint{}},
		{is: mountPoint{readOnly: true}},
		{is: mountPoint{readOnly: true, deviceReadOnly: true}},
		{is: mountPoint{deviceReadOnly: true}, attached: true},
		{is: mountPoint{deviceReadOnly: true}, want: true},
		{is: mountPoint{broken: true}, want: true},
	} {
		if got := c.is.isStopped(c.attached); got != c.want {
			t.Errorf("%+v, attached read-only %v: %v, want %v", c.is, c.attached, got, c.want)
		}
	}
}
