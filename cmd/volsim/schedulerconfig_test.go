package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestOptionsOfTheScheduler checks --scheduler-config and --storage-capacity.
func TestOptionsOfTheScheduler(t *testing.T) {
	t.Parallel()
	const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testcheck.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := write("good.yaml", header+"podMaxBackoffSeconds: 7\n")
	tests := []struct {
		args   []string
		manual bool
		want   string // part of the error; "": none
	}{
		{args: []string{"--scheduler-config", good, "--storage-capacity", "2m"}},
		{args: []string{"--scheduler-config", good}, manual: true, want: "--by-hand does not support --scheduler-config"},
		{args: []string{"--scheduler-config", filepath.Join(dir, "none")}, want: "no such file"},
		{args: []string{"--scheduler-config", write("field.yaml", header+"colour: red\n")}, want: `field.yaml: strict decoding error: unknown field "colour"`},
		{args: []string{"--scheduler-config", write("value.yaml", header+"podMaxBackoffSeconds: 0\n")}, want: "podMaxBackoffSeconds: Invalid value: 0"},
		{args: []string{"--storage-capacity", "-1m"}, want: "invalid --storage-capacity -1m0s"},
	}
	for _, tt := range tests {
		var o worldOptions
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.addFlags(flags)
		testcheck.NoError(t, flags.Parse(tt.args))
		err := o.validate("auto", tt.manual)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: error %v, want %q", tt.args, err, tt.want)
			}
			continue
		}
		var cfg cluster.Config
		testcheck.NoError(t, err)
		if o.apply(&cfg); cfg.Scheduler == nil || *cfg.Scheduler.PodMaxBackoffSeconds != 7 || cfg.StorageCapacity != 2*time.Minute {
			t.Errorf("%v: got %+v", tt.args, cfg)
		}
	}
}
