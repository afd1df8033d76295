package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// An answer is what a driver prints: one JSON object.
type answer struct {
	Status       string          `json:"status"`
	Message      string          `json:"message,omitempty"`
	Device       string          `json:"device,omitempty"`
	VolumeName   string          `json:"volumeName,omitempty"`
	Attached     bool            `json:"attached,omitempty"`
	Size         int64           `json:"volumeNewSize,omitempty"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
}

// A call is one call of a driver.
type call struct {
	arguments int
	run       func(args []string) (answer, error)
}

// A driver has the calls that a program supports, by name.
type driver map[string]call

// drivers are the drivers by the name of the program.
var drivers = map[string]func() (driver, error){"lvm": newLVM, "nfs": newNFS}

func main() {
	klog.SetLogger(logr.Discard()) // a line of a library would make the output invalid
	a := run(filepath.Base(os.Args[0]), os.Args[1:])
	_ = json.NewEncoder(os.Stdout).Encode(a)
	if a.Status != "Success" {
		os.Exit(1)
	}
}

// run makes one call.
func run(program string, args []string) answer {
	create, ok := drivers[program]
	if !ok {
		return failure(fmt.Errorf("no driver %q: name the program lvm or nfs", program))
	}
	if len(args) == 0 {
		return failure(errors.New("no call"))
	}
	d, err := create()
	if err != nil {
		return failure(err)
	}
	c, ok := d[args[0]]
	switch {
	case !ok:
		return answer{Status: "Not supported"}
	case len(args)-1 != c.arguments:
		return failure(fmt.Errorf("%s: %d arguments, want %d", args[0], len(args)-1, c.arguments))
	}
	a, err := c.run(args[1:])
	if err != nil {
		return failure(err)
	}
	a.Status = "Success"
	return a
}

func failure(err error) answer { return answer{Status: "Failure", Message: err.Error()} }

// options are those of the volume and those that kubelets and controllers add.
type options map[string]string

func parseOptions(text string) (options, error) {
	var o options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return o, nil
}

func (o options) name() string   { return o["kubernetes.io/pvOrVolumeName"] }
func (o options) readOnly() bool { return o["kubernetes.io/readwrite"] == "ro" }

// access returns the mount option for the requested access.
func (o options) access() string {
	if o.readOnly() {
		return "ro"
	}
	return "rw"
}

// readConfig reads config.json next to the program: what an administrator sets for a machine. Some
// calls have no options of a volume.
func readConfig(into any) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(program), "config.json"))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
