package health

import "testing"

func TestAFileSystemIsStoppedThatWasToBeWrittenTo(t *testing.T) {
	for _, c := range []struct {
		is       place
		attached bool // read-only
		want     bool
	}{
		{is: place{}},
		{is: place{readOnly: true}},
		{is: place{readOnly: true, deviceReadOnly: true}},
		{is: place{deviceReadOnly: true}, attached: true},
		{is: place{deviceReadOnly: true}, want: true},
		{is: place{broken: true}, want: true},
	} {
		if got := c.is.stopped(c.attached); got != c.want {
			t.Errorf("%+v, attached read-only %v: %v, want %v", c.is, c.attached, got, c.want)
		}
	}
}
