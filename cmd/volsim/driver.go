package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// driverOptions are the flags of "volsim driver", of which each kind of driver
// takes those that it has a use for.
type driverOptions struct {
	endpoint string
	node     string
	state    string
	root     string
	name     string

	topologyKey  string
	nodeAttaches bool
	mountGroup   bool

	volumesPerNode int    // of array
	reserve        string // of loop
	lvm            lvmOptions

	registration    string
	kubeletEndpoint string
	metrics         string
	grace           time.Duration

	orphans bool
	quiet   bool
	verbose bool
	json    bool
}

func newDriver() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "driver",
		Short: "Run a CSI driver for a kubelet and sidecars",
		Long: "driver runs one of this project's CSI drivers as a program of its own, which serves CSI 1.13 on a unix socket until it\n" +
			"is interrupted: for a real kubelet, the sidecars of kubernetes-csi, or any program that speaks CSI.\n" +
			"docs/drivers.md tells how to run it beside a cluster.",
		Args: cobra.NoArgs,
	}
	for _, kind := range driverKinds() {
		cmd.AddCommand(kind.command())
	}
	return cmd
}

// command is the command that runs a kind of driver.
func (k driverKind) command() *cobra.Command {
	var o driverOptions
	cmd := &cobra.Command{
		Use: k.name, Short: k.short, Long: k.long, Example: k.example,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if o.orphans {
				return listOrphans(cmd.Context(), cmd.OutOrStdout(), k, o)
			}
			return serveDriver(cmd.Context(), log, k, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.endpoint, "endpoint", cmp.Or(os.Getenv("CSI_ENDPOINT"), "unix:///run/csi/csi.sock"),
		"unix `socket` to serve at; the environment's CSI_ENDPOINT is the default where it is set")
	flags.StringVar(&o.node, "node-id", "", "`name` of the node that this machine is, as its kubelet calls it (default the host's name)")
	flags.StringVar(&o.name, "driver-name", k.driverName, "`name` that storage classes use")
	flags.StringVar(&o.registration, "kubelet-registration", "",
		"`socket` to register with a kubelet at, such as /var/lib/kubelet/plugins_registry/NAME-reg.sock: no node-driver-registrar is needed then")
	flags.StringVar(&o.kubeletEndpoint, "kubelet-endpoint", "", "`path` of the endpoint's socket as the kubelet sees it (default as this program does)")
	flags.StringVar(&o.metrics, "metrics", "", "`address` to serve Prometheus' /metrics at, such as 127.0.0.1:9090 (default nowhere)")
	flags.DurationVar(&o.grace, "grace", 30*time.Second, "how long calls under way have to end when the driver is stopped")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "log warnings and errors only")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "log requests and responses, too, without their secrets")
	flags.BoolVar(&o.json, "json", false, "log as JSON")
	k.flags(flags, &o)
	if !k.onDevices {
		return cmd
	}
	flags.StringVar(&o.state, "state", "", "`directory` in which the volumes are kept, this driver's alone (required)")
	flags.StringVar(&o.root, "root", "/var/lib/kubelet", "`directory` of the kubelet: all that is mounted is below it")
	flags.BoolVar(&o.nodeAttaches, "node-attaches", true,
		"attach volumes as they are staged. With false the controller service attaches them, by way of an external-attacher on this machine")
	flags.BoolVar(&o.mountGroup, "mount-group", false, "have the driver give volumes to the fsGroup of a pod, instead of the kubelet (VOLUME_MOUNT_GROUP)")
	flags.BoolVar(&o.orphans, "orphans", false, "list what carries the driver's mark and belongs to no volume, and how to get rid of it; then end")
	return cmd
}

// validate fills in what was left out.
func (o *driverOptions) validate(k driverKind) (err error) {
	if o.node == "" {
		if o.node, err = os.Hostname(); err != nil {
			return fmt.Errorf("--node-id: name the node: %w", err)
		}
	}
	if !k.onDevices {
		return nil
	}
	if o.state == "" {
		return errors.New("--state: name a directory for the volumes")
	}
	if o.state, err = filepath.Abs(o.state); err != nil {
		return err
	}
	if _, err := os.Stat(o.root); err != nil {
		return fmt.Errorf("--root: %w: name the directory of the kubelet, or of whoever else calls the node service", err)
	}
	return nil
}

func (o *driverOptions) logger(errs io.Writer) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	switch {
	case o.quiet && o.verbose:
		return nil, errors.New("--quiet and --verbose: choose one")
	case o.quiet:
		options.Level = slog.LevelWarn
	case o.verbose:
		options.Level = slog.LevelDebug
	}
	if o.json {
		return slog.New(slog.NewJSONHandler(errs, options)), nil
	}
	return slog.New(slog.NewTextHandler(errs, options)), nil
}

// listOrphans is --orphans. A driver that runs meanwhile is not disturbed; one that
// lets nobody else look refuses it.
func listOrphans(ctx context.Context, out io.Writer, k driverKind, o driverOptions) error {
	if err := o.validate(k); err != nil {
		return err
	}
	if _, err := os.Stat(o.state); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	if err := k.usable(); err != nil {
		return err
	}
	driver, err := k.open(ctx, o)
	if err != nil {
		return err
	}
	orphans, err := driver.orphans(ctx)
	for _, each := range orphans {
		fmt.Fprintln(out, each)
	}
	if err == nil && len(orphans) == 0 {
		fmt.Fprintln(out, "no orphans")
	}
	return errors.Join(err, driver.close())
}
