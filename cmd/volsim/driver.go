package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volsim/volsim/cmd/volsim/internal/csiserver"
	"github.com/volsim/volsim/internal/csireq"
)

// driverNameBytesMax is the maximum length of a driver's name.
//
// Upstream: the Container Storage Interface; pkg/apis/storage/validation.
const driverNameBytesMax = 63

// driverOptions are the flags of "volsim driver". Each kind of driver uses a subset.
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
		Long: "driver runs one of volsim's CSI drivers as a standalone program. It serves CSI 1.13 on a unix socket until it is\n" +
			"interrupted, for a real kubelet, the kubernetes-csi sidecars, or any other CSI client. docs/drivers.md describes the\n" +
			"deployment in a cluster.",
		Args: cobra.NoArgs,
	}
	for _, kind := range driverKinds() {
		cmd.AddCommand(kind.command())
	}
	return cmd
}

// command returns the command that runs a kind of driver.
func (k driverKind) command() *cobra.Command {
	var o driverOptions
	cmd := &cobra.Command{
		Use: k.name, Short: k.short, Long: k.long, Example: k.example,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(k); err != nil {
				return usage(err)
			}
			log := o.logger(cmd.ErrOrStderr())
			if o.orphans {
				return listOrphans(cmd.Context(), cmd.OutOrStdout(), k, o)
			}
			return serveDriver(cmd.Context(), log, k, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.endpoint, "endpoint", cmp.Or(os.Getenv("CSI_ENDPOINT"), "unix:///run/csi/csi.sock"),
		"unix `socket` of the driver; defaults to the environment variable CSI_ENDPOINT if set")
	flags.StringVar(&o.node, "node-id", "", "`name` of this node in the cluster (default the host name)")
	flags.StringVar(&o.name, "driver-name", k.driverName, "`name` of the driver, as used by storage classes")
	flags.StringVar(&o.registration, "kubelet-registration", "",
		"kubelet registration `socket`, such as /var/lib/kubelet/plugins_registry/NAME-reg.sock; replaces the node-driver-registrar")
	flags.StringVar(&o.kubeletEndpoint, "kubelet-endpoint", "", "`path` of the endpoint's socket in the kubelet's file system (default the same path)")
	flags.StringVar(&o.metrics, "metrics", "", "`address` of the Prometheus /metrics endpoint, such as 127.0.0.1:9090 (default disabled)")
	flags.DurationVar(&o.grace, "grace", 30*time.Second, "how long calls in flight may take when the driver stops")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "log only warnings and errors")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "also log requests and responses, with secrets redacted")
	flags.BoolVar(&o.json, "json", false, "log as JSON")
	k.flags(flags, &o)
	if !k.onDevices {
		return cmd
	}
	flags.StringVar(&o.state, "state", "", "`directory` of the volumes, used by this driver only (required)")
	flags.StringVar(&o.root, "root", "/var/lib/kubelet", "kubelet `directory`; contains all mounts")
	flags.BoolVar(&o.nodeAttaches, "node-attaches", true,
		"attach volumes when they are staged; if false, the controller service attaches them, called by an external-attacher on this node")
	flags.BoolVar(&o.mountGroup, "mount-group", false, "apply a pod's fsGroup in the driver instead of the kubelet (VOLUME_MOUNT_GROUP)")
	flags.BoolVar(&o.orphans, "orphans", false, "list objects that carry the driver's mark but belong to no volume, with the command to remove each; then exit")
	return cmd
}

// validate fills in defaults and returns an error for invalid options.
func (o *driverOptions) validate(k driverKind) (err error) {
	switch {
	case o.quiet && o.verbose:
		return errors.New("--quiet and --verbose are mutually exclusive")
	case o.grace < 0:
		return fmt.Errorf("invalid --grace %v: want no negative duration", o.grace)
	case o.volumesPerNode < 0:
		return fmt.Errorf("invalid --volumes-per-node %d: want no negative number", o.volumesPerNode)
	}
	if _, err := csiserver.SocketPath(o.endpoint); err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	if o.registration != "" {
		if _, err := csiserver.SocketPath(o.registration); err != nil {
			return fmt.Errorf("--kubelet-registration: %w", err)
		}
	}
	if err := addressFlag("--metrics", o.metrics); o.metrics != "" && err != nil {
		return err
	}
	if o.node == "" {
		if o.node, err = os.Hostname(); err != nil {
			return fmt.Errorf("--node-id is required: no host name: %w", err)
		}
	}
	if err := csireq.CheckText(&csi.NodeGetInfoResponse{NodeId: o.node}); err != nil {
		return fmt.Errorf("invalid --node-id: %s", status.Convert(err).Message())
	}
	if problems := validation.IsDNS1123Subdomain(strings.ToLower(o.name)); len(problems) > 0 || len(o.name) > driverNameBytesMax {
		return fmt.Errorf("invalid --driver-name %.80q: want a domain name of at most %d characters, such as %s", o.name,
			driverNameBytesMax, k.driverName)
	}
	if k.check != nil {
		if err := k.check(*o); err != nil {
			return err
		}
	}
	if !k.onDevices {
		return nil
	}
	if o.state == "" {
		return errors.New("--state is required: specify a directory for the volumes")
	}
	if o.state, err = filepath.Abs(o.state); err != nil {
		return err
	}
	if _, err := os.Stat(o.root); err != nil {
		return fmt.Errorf("--root: %w: specify the directory of the kubelet, or of another client of the node service", err)
	}
	return nil
}

// addressFlag returns an error if the value of a flag is not an address with a port.
func addressFlag(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("invalid %s %q: want an address with a port, such as 127.0.0.1:8080", flag, address)
	}
	return nil
}

func (o *driverOptions) logger(errs io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: shortenAttribute}
	switch {
	case o.quiet:
		options.Level = slog.LevelWarn
	case o.verbose:
		options.Level = slog.LevelDebug
	}
	if o.json {
		return slog.New(slog.NewJSONHandler(errs, options))
	}
	return slog.New(slog.NewTextHandler(errs, options))
}

// listOrphans implements --orphans. It does not disturb a running driver. A driver that locks its
// state refuses it.
func listOrphans(ctx context.Context, out io.Writer, k driverKind, o driverOptions) error {
	if _, err := os.Stat(o.state); err != nil {
		return usage(fmt.Errorf("--state: %w", err))
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
