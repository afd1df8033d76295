package volumebinding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
	csiplugins "k8s.io/csi-translation-lib/plugins"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// reasons is a set of reasons why a pod's claims cannot be used on a node.
type reasons int

const (
	nodeConflict reasons = 1 << iota
	bindConflict
	notEnoughSpace
	noSuchVolume
	reasonMax
)

// reasonTexts has the reasons in the order of the message.
//
// Upstream: ErrReasonNodeConflict, ErrReasonBindConflict, ErrReasonNotEnoughSpace, ErrReasonPVNotExist
// (v1.36), to the letter.
var reasonTexts = []string{
	"node(s) didn't match PersistentVolume's node affinity",
	"node(s) didn't find available persistent volumes to bind",
	"node(s) did not have enough free storage",
	"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}

func (r reasons) texts() []string {
	var texts []string
	for i, text := range reasonTexts {
		if r&(1<<i) != 0 {
			texts = append(texts, text)
		}
	}
	return texts
}

// reject returns the status with reasons.
func (p *Plugin) reject(why reasons) *framework.Status {
	if p.rejections[why] == nil {
		p.rejections[why] = framework.NewStatus(framework.UnschedulableAndUnresolvable, why.texts()...)
	}
	return p.rejections[why]
}

// podVolumes are how a pod gets the volumes of its delayed claims on a node.
//
// Upstream: PodVolumes (v1.36).
type podVolumes struct {
	bindings   []binding
	provisions []provision
}

// A binding is an existing volume that a claim gets.
type binding struct {
	claim   *corev1.PersistentVolumeClaim
	volume  *corev1.PersistentVolume // as found; then as assumed, with the claim; then as written
	assumed bool
}

// A provision is a claim for which a volume is provisioned.
type provision struct {
	claim    *corev1.PersistentVolumeClaim // as found; then as assumed, with the node; then as written
	capacity *storagev1.CSIStorageCapacity // that is large enough; nil: not checked
	assumed  bool
}

// Filter reports why a pod's claims cannot be used on a node.
//
// Upstream: Filter, FindPodVolumes (v1.36).
func (p *Plugin) Filter(cycle *framework.Cycle, info *framework.NodeInfo) *framework.Status {
	s := stateOf(cycle)
	if s == nil {
		return nil
	}
	node := info.Node
	why, err := p.checkBound(s.bound, node)
	if err != nil {
		return framework.AsStatus(err)
	}
	var found *podVolumes
	if len(s.selected)+len(s.toMatch) > 0 {
		var unsatisfied reasons
		found, unsatisfied = p.find(s, node)
		why |= unsatisfied
	}
	if why != 0 {
		return p.reject(why)
	}
	if found != nil {
		if s.byNode == nil {
			s.byNode = map[string]*podVolumes{}
		}
		s.byNode[node.Name] = found
	}
	return nil
}

// checkBound returns why a node cannot use the volumes of bound claims.
//
// Upstream: checkBoundClaims (v1.36).
func (p *Plugin) checkBound(claims []boundClaim, node *corev1.Node) (reasons, error) {
	for i := range claims {
		claim := &claims[i]
		switch {
		case claim.volume == nil:
			return noSuchVolume, nil
		case claim.inTree:
			volume, err := p.translate(claim.volume, node.Name)
			if err != nil {
				return 0, err
			}
			if storagehelpers.CheckNodeAffinity(volume, node.Labels) != nil {
				return nodeConflict, nil
			}
		case claim.affinity != nil:
			if match, err := claim.affinity.Match(node); err != nil || !match {
				return nodeConflict, nil //nolint:nilerr // an invalid affinity matches nothing
			}
		}
	}
	return 0, nil
}

// find decides how a pod's delayed claims get their volumes on a node: the smallest existing volume
// that fits, or a new one.
//
// Upstream: FindPodVolumes, findMatchingVolumes, checkVolumeProvisions (v1.36).
//
// Differs: of claims that request the same size, the pod's first chooses first, and of volumes of the
// same size the first by name is chosen.
func (p *Plugin) find(s *state, node *corev1.Node) (*podVolumes, reasons) {
	for _, d := range s.selected {
		if d.claim.Annotations[storagehelpers.AnnSelectedNode] != node.Name {
			return nil, bindConflict
		}
	}
	found := &podVolumes{}
	toProvision := s.selected[:len(s.selected):len(s.selected)]
	var chosen map[string]*corev1.PersistentVolume
	for _, d := range s.toMatch {
		volume := d.volumes.on(node, chosen)
		if volume == nil {
			toProvision = append(toProvision, d)
			continue
		}
		if chosen == nil {
			chosen = map[string]*corev1.PersistentVolume{}
		}
		chosen[volume.Name] = volume
		found.bindings = append(found.bindings, binding{claim: d.claim, volume: volume})
	}
	for _, d := range toProvision {
		if !mayProvision(d.class, node) {
			return nil, bindConflict
		}
		var capacity *storagev1.CSIStorageCapacity
		if d.limited {
			if capacity = p.capacityFor(d, node); capacity == nil {
				return nil, notEnoughSpace
			}
		}
		found.provisions = append(found.provisions, provision{claim: d.claim, capacity: capacity})
	}
	return found, 0
}

// mayProvision reports whether volumes of a class can be provisioned for a node.
func mayProvision(class *storagev1.StorageClass, node *corev1.Node) bool {
	return class.Provisioner != "" && class.Provisioner != storagehelpers.NotSupportedProvisioner &&
		matchesTopology(class.AllowedTopologies, node.Labels)
}

// matchesTopology reports whether a node's labels match any of the terms. Without terms it returns
// true.
//
// Upstream: pkg/apis/core/v1/helper MatchTopologySelectorTerms (v1.36).
func matchesTopology(terms []corev1.TopologySelectorTerm, labels map[string]string) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term corev1.TopologySelectorTerm) bool {
		mismatch := func(r corev1.TopologySelectorLabelRequirement) bool {
			value, ok := labels[r.Key]
			return !ok || !slices.Contains(r.Values, value)
		}
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions, mismatch)
	})
}

// candidates are the volumes that a claim may get, but for the node, by the node label that they require. So a
// node is not compared with the volumes of all other nodes.
type candidates struct {
	reserved []*corev1.PersistentVolume // that have the claim already; by name
	anywhere []*corev1.PersistentVolume // other volumes that do not require just one label; like those below, by size and name
	byLabel  map[label][]*corev1.PersistentVolume
	keys     []string // of the labels
}

type label struct{ key, value string }

// newCandidates returns those volumes of a list, sorted by name, that fit a claim. The error is that the claim's
// selector is invalid.
func newCandidates(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume) (candidates, error) {
	var c candidates
	fitting := make([]*corev1.PersistentVolume, 0, len(volumes))
	for i, volume := range volumes {
		match, err := storagehelpers.FindMatchingVolume(claim, volumes[i:i+1], nil, nil, false, true)
		switch {
		case err != nil:
			return candidates{}, err
		case match == nil:
		case storagehelpers.IsVolumeBoundToClaim(volume, claim):
			c.reserved = append(c.reserved, volume)
		case storagehelpers.CheckAccessModes(claim, volume):
			fitting = append(fitting, volume)
		}
	}
	slices.SortStableFunc(fitting, compareSizes)
	for _, volume := range fitting {
		required := onlyRequirement(volume)
		if required == nil {
			c.anywhere = append(c.anywhere, volume)
			continue
		}
		if c.byLabel == nil {
			c.byLabel = map[label][]*corev1.PersistentVolume{}
		}
		if !slices.Contains(c.keys, required.Key) {
			c.keys = append(c.keys, required.Key)
		}
		for _, value := range required.Values {
			l := label{required.Key, value}
			c.byLabel[l] = append(c.byLabel[l], volume)
		}
	}
	return c, nil
}

func compareSizes(a, b *corev1.PersistentVolume) int {
	one, two := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
	return cmp.Or(one.Cmp(two), cmp.Compare(a.Name, b.Name))
}

// onlyRequirement returns the requirement of a volume that requires one of some values of one label; nil
// for other volumes.
func onlyRequirement(volume *corev1.PersistentVolume) *corev1.NodeSelectorRequirement {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return nil
	}
	term := &affinity.Required.NodeSelectorTerms[0]
	if len(term.MatchFields) != 0 || len(term.MatchExpressions) != 1 || term.MatchExpressions[0].Operator != corev1.NodeSelectorOpIn {
		return nil
	}
	return &term.MatchExpressions[0]
}

// on returns the volume that the claim gets on a node: the one that has the claim already, or else the smallest.
// It is nil if there is none. Volumes that are taken are left out.
//
// Upstream: k8s.io/component-helpers/storage/volume FindMatchingVolume (v1.36).
func (c *candidates) on(node *corev1.Node, taken map[string]*corev1.PersistentVolume) *corev1.PersistentVolume {
	isFree := func(volume *corev1.PersistentVolume) bool { return taken[volume.Name] == nil }
	isUsable := func(volume *corev1.PersistentVolume) bool {
		return storagehelpers.CheckNodeAffinity(volume, node.Labels) == nil
	}
	if i := slices.IndexFunc(c.reserved, isFree); i >= 0 {
		if isUsable(c.reserved[i]) {
			return c.reserved[i]
		}
		return nil
	}
	var smallest *corev1.PersistentVolume
	consider := func(volumes []*corev1.PersistentVolume, fits func(*corev1.PersistentVolume) bool) {
		i := slices.IndexFunc(volumes, func(v *corev1.PersistentVolume) bool { return isFree(v) && (fits == nil || fits(v)) })
		if i >= 0 && (smallest == nil || compareSizes(volumes[i], smallest) < 0) {
			smallest = volumes[i]
		}
	}
	consider(c.anywhere, isUsable)
	for _, key := range c.keys {
		if value, ok := node.Labels[key]; ok {
			consider(c.byLabel[label{key, value}], nil)
		}
	}
	return smallest
}

// isInTree reports whether a volume is one of an in-tree plugin that is migrated to CSI.
//
// Upstream: isCSIMigrationOnForPlugin (v1.36).
func isInTree(volume *corev1.PersistentVolume) bool { return inTreePlugin(volume) != "" }

func inTreePlugin(volume *corev1.PersistentVolume) string {
	source := &volume.Spec.PersistentVolumeSource
	switch {
	case source.AWSElasticBlockStore != nil:
		return csiplugins.AWSEBSInTreePluginName
	case source.GCEPersistentDisk != nil:
		return csiplugins.GCEPDInTreePluginName
	case source.AzureDisk != nil:
		return csiplugins.AzureDiskInTreePluginName
	case source.Cinder != nil:
		return csiplugins.CinderInTreePluginName
	case source.PortworxVolume != nil:
		return csiplugins.PortworxVolumePluginName
	default:
		return ""
	}
}

// translate returns a volume as the CSI driver sees it that replaces its in-tree plugin on a node: its node
// affinity has the labels of the driver.
//
// Upstream: tryTranslatePVToCSI, isPluginMigratedToCSIOnNode (v1.36).
func (p *Plugin) translate(volume *corev1.PersistentVolume, node string) (*corev1.PersistentVolume, error) {
	plugin := inTreePlugin(volume)
	if plugin == "" {
		return volume, nil
	}
	csiNode, err := p.csiNodes.Get(node)
	if err != nil || !slices.Contains(strings.Split(csiNode.Annotations[corev1.MigratedPluginsAnnotationKey], ","), plugin) {
		return volume, nil //nolint:nilerr // without a CSINode nothing is migrated
	}
	translated, err := csitranslation.New().TranslateInTreePVToCSI(logr.Discard(), volume)
	if err != nil {
		return nil, fmt.Errorf("could not translate pv: %v", err) //nolint:errorlint // to the letter
	}
	return translated, nil
}
