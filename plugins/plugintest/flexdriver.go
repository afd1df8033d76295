package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/volsim/volsim/plugins/nodefs"
)

// A FlexDriver is the program of a FlexVolume driver, on the machine where its volumes are mounted.
type FlexDriver struct {
	FS      nodefs.FS // the machine's disk
	Program string    // on FS
	Dir     string    // an empty directory on FS, for mounts
	Node    string    // the name of the machine
	// Volumes are the options of two different volumes that exist or that attaching or mounting
	// creates. Those of the kubelet are added: the volume's name is v0 or v1.
	Volumes [2]map[string]string
	// Missing are the options of a volume that does not exist and cannot be created. nil: not checked.
	Missing map[string]string
}

// CheckFlexDriver makes all calls to a FlexVolume driver as kubelets and controllers do, once and
// repeatedly, in order and out of order, and with bad arguments. It returns an error with one line
// for each violation; nil if there is none. In the end nothing is mounted or attached.
//
// Upstream: pkg/volume/flexvolume (v1.36), its callers.
func CheckFlexDriver(ctx context.Context, d FlexDriver) error {
	c := &flexChecker{FlexDriver: d, ctx: ctx, reported: map[string]bool{}, unsupported: map[string]bool{}}
	for _, check := range []func(){
		c.checkInit, c.checkUnknownCalls, c.checkNames, c.checkAttach, c.checkLife, c.checkReadOnly, c.checkTwoVolumes,
		c.checkExpansion, c.checkBadArguments,
	} {
		check()
		c.cleanUp()
	}
	return errors.Join(c.problems...)
}

// A flexChecker collects the violations.
type flexChecker struct {
	FlexDriver
	ctx         context.Context //nolint:containedctx // of one check
	attaches    bool
	unsupported map[string]bool
	problems    []error
	reported    map[string]bool
}

// A flexAnswer is what a program prints.
type flexAnswer struct {
	Status       string           `json:"status"`
	Message      string           `json:"message"`
	Device       string           `json:"device"`
	VolumeName   string           `json:"volumeName"`
	Attached     *bool            `json:"attached"`
	Capabilities *map[string]bool `json:"capabilities"`
	Size         *int64           `json:"volumeNewSize"`
}

func (c *flexChecker) problem(rule, format string, args ...any) {
	if !c.reported[rule] {
		c.reported[rule] = true
		c.problems = append(c.problems, fmt.Errorf("%s: %s", rule, fmt.Sprintf(format, args...)))
	}
}

// The results of a call.
const (
	succeeded = "Success"
	failed    = "Failure"
	missing   = "Not supported"
)

// call makes one call and checks the form of the answer.
func (c *flexChecker) call(name string, args ...string) flexAnswer {
	output, runErr := c.FS.Run(c.ctx, c.Program, append([]string{name}, args...)...)
	var a flexAnswer
	switch err := json.Unmarshal(output, &a); {
	case err != nil:
		c.problem(name+": output is not one JSON object", "%v: %.200q", err, output)
	case !slices.Contains([]string{succeeded, failed, missing}, a.Status):
		c.problem(name+": unknown status", "%q", a.Status)
	case a.Status == succeeded && runErr != nil:
		c.problem(name+": reports success, but exits with a failure", "%v", runErr)
	case a.Status == failed && a.Message == "":
		c.problem(name+": reports a failure without a message", "%s", output)
	case a.Status == missing:
		c.unsupported[name] = true
	}
	return a
}

// want makes a call that must succeed or be unsupported. It reports whether it succeeded.
func (c *flexChecker) want(when, name string, args ...string) (flexAnswer, bool) {
	if c.unsupported[name] {
		return flexAnswer{}, false
	}
	a := c.call(name, args...)
	if a.Status == failed {
		c.problem(name+": fails "+when, "%s", a.Message)
	}
	return a, a.Status == succeeded
}

func (c *flexChecker) checkInit() {
	for range 2 {
		a := c.call("init")
		if a.Status != succeeded {
			c.problem("init: does not succeed", "%s: %s", a.Status, a.Message)
		}
		c.attaches = true
		if a.Capabilities != nil {
			if attaches, ok := (*a.Capabilities)["attach"]; ok {
				c.attaches = attaches
			}
		}
	}
}

func (c *flexChecker) checkUnknownCalls() {
	if a := c.call("no-such-call", c.options(0, false)); a.Status != missing {
		c.problem("an unknown call: is not reported as not supported", "%s", a.Status)
	}
}

// options returns the options of a volume as kubelets and controllers pass them.
func (c *flexChecker) options(i int, readOnly bool, further ...map[string]string) string {
	all := map[string]string{
		"kubernetes.io/fsType": "ext4", "kubernetes.io/readwrite": "rw", "kubernetes.io/pvOrVolumeName": volumeName(i),
	}
	if readOnly {
		all["kubernetes.io/readwrite"] = "ro"
	}
	for _, more := range further {
		maps.Copy(all, more)
	}
	maps.Copy(all, c.Volumes[i])
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// podOptions are options that only mounting for a pod has.
func podOptions(pod string) map[string]string {
	return map[string]string{
		"kubernetes.io/pod.name": pod, "kubernetes.io/pod.namespace": "default", "kubernetes.io/pod.uid": pod,
		"kubernetes.io/serviceAccount.name": "default",
	}
}

func volumeName(i int) string { return fmt.Sprintf("v%d", i) }

func (c *flexChecker) checkNames() {
	seen := map[string]int{}
	for i := range c.Volumes {
		var first string
		for n := range 2 {
			a, ok := c.want("for a volume that exists", "getvolumename", c.options(i, false))
			if !ok {
				return
			}
			if n > 0 && a.VolumeName != first {
				c.problem("getvolumename: changes between calls", "%q, previously %q", a.VolumeName, first)
			}
			first = a.VolumeName
		}
		if other, taken := seen[first]; taken && first != "" {
			c.problem("getvolumename: same for two volumes", "%q is the name of %d and %d", first, other, i)
		}
		seen[first] = i
	}
}

// checkAttach attaches, verifies and detaches a volume, each of it twice.
func (c *flexChecker) checkAttach() {
	if !c.attaches {
		return
	}
	c.want("for a volume that is not attached", "detach", volumeName(0), c.Node)
	c.wantAttached("before it is attached", 0, false)
	device, ok := c.attach(0)
	if !ok {
		return
	}
	if again, ok := c.attach(0); ok && again != device {
		c.problem("attach: another device the second time", "%q, previously %q", again, device)
	}
	c.wantAttached("after it was attached", 0, true)
	c.wantAttached("while only another volume is attached", 1, false)
	c.detach(0)
	c.wantAttached("after it was detached", 0, false)
	c.want("the second time", "detach", volumeName(0), c.Node)
}

// attach attaches a volume and waits for its device.
func (c *flexChecker) attach(i int) (device string, ok bool) {
	if !c.attaches {
		return "", true
	}
	a, ok := c.want("for a volume that exists", "attach", c.options(i, false), c.Node)
	if !ok {
		return "", c.unsupported["attach"]
	}
	device = a.Device
	if a, ok := c.want("for an attached volume", "waitforattach", device, c.options(i, false)); ok {
		if a.Device == "" && device != "" {
			c.problem("waitforattach: returns no device", "attach returned %q", device)
		}
		device = a.Device
	}
	return device, true
}

func (c *flexChecker) detach(i int) {
	if c.attaches {
		c.want("for an attached volume", "detach", volumeName(i), c.Node)
	}
}

func (c *flexChecker) wantAttached(when string, i int, want bool) {
	a, ok := c.want(when, "isattached", c.options(i, false), c.Node)
	if ok && (a.Attached != nil && *a.Attached) != want {
		c.problem("isattached: wrong "+when, "want attached: %t", want)
	}
}
