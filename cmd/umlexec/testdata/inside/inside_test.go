// Package inside is run in a guest by the tests of umlexec. The variable WANT selects the result.
package inside

import (
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"
)

func TestInside(t *testing.T) {
	switch os.Getenv("WANT") {
	case "fail":
		t.Error("fails as requested")
	case "hang":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		fmt.Println("hanging")
		if os.Getenv("DEAF") != "" {
			select {}
		}
		fmt.Println("got", <-signals)
	case "slow":
		time.Sleep(time.Hour)
	}
	if _, err := os.Stat("inside_test.go"); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		t.Error("not root")
	}
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		t.Error(err)
	}
	fmt.Printf("kernel: %.10s\n", text)
}
