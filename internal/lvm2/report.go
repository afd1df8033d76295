package lvm2

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is the content of a volume group's metadata at one moment.
type Report struct {
	Name, UUID, SystemID string
	// Sequence counts the changes of the metadata.
	Sequence int64
	// ExtentSize, Size and Free are in bytes.
	ExtentSize, Size, Free int64
	Tags                   []string
	PhysicalVolumes        []PhysicalVolume // including missing ones
	LogicalVolumes         []LogicalVolume  // without the hidden ones, such as the legs of a mirror
}

// PhysicalVolume is a disk of a volume group.
type PhysicalVolume struct {
	Name string // of the disk; "" if missing
	UUID string
	// Start is the offset of the first extent on the disk, Size and Free the usable space; all in
	// bytes.
	Start, Size, Free int64
	Missing           bool
	Unused            []Extent // free extents, sorted
}

// Extent is a run of extents of one physical volume, counted in extents.
type Extent struct {
	PhysicalVolume string // name of its disk
	Start, Length  int64
}

// LogicalVolume is a logical volume.
type LogicalVolume struct {
	Name, UUID string
	// Size is the size of its device in bytes. For a snapshot that is not the space it occupies.
	Size     int64
	Layout   Layout
	Tags     []string
	ReadOnly bool
	// Origin is the origin of a snapshot, Pool the pool of a thin volume.
	Origin, Pool string
	// Created is the creation time, to the second.
	Created time.Time
	// DataPercent is the usage of a thin pool, a thin volume or a snapshot, and MetadataPercent
	// that of a pool's metadata. Both are 0 unless the volume is active.
	DataPercent, MetadataPercent float64
	// Health is "" for a healthy volume; otherwise LVM's word: partial (a disk is missing),
	// out_of_data, refresh needed, and others.
	Health string
	// Attributes are the ten letters of lvs. It is "" if the volume was read without LVM, as
	// ordinary volumes are without device-mapper.
	Attributes string
	// Extents are the runs of extents that a volume has directly on disks, in the volume's order.
	// Adjacent runs are merged. The stripes of one segment are next to each other.
	Extents []Extent

	node         string // of device-mapper
	major, minor int    // -1, -1 if inactive
	open         bool   // its device is open
}

// Unfinished reports whether a volume is still being created, or was when its process was killed.
func (v LogicalVolume) Unfinished() bool { return v.HasTags(unfinishedTag) }

// HasTags reports whether a volume has all of the tags.
func (v LogicalVolume) HasTags(tags ...string) bool {
	return !slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(v.Tags, tag) })
}

// Layout is the layout of a volume on disks, in LVM's terms.
type Layout string

// The layouts. Others are reported by LVM's name.
const (
	Linear   Layout = "linear"
	Striped  Layout = "striped"
	RAID1    Layout = "raid1"
	ThinPool Layout = "thin-pool"
	Thin     Layout = "thin"
	Snapshot Layout = "snapshot" // thick: it takes up space as its origin is written to
)

// Find returns the volume of a name.
func (r *Report) Find(name string) (LogicalVolume, bool) {
	at := slices.IndexFunc(r.LogicalVolumes, func(v LogicalVolume) bool { return v.Name == name })
	if at < 0 {
		return LogicalVolume{}, false
	}
	return r.LogicalVolumes[at], true
}

// disk returns the physical volume of a disk.
func (r *Report) disk(name string) (PhysicalVolume, bool) {
	at := slices.IndexFunc(r.PhysicalVolumes, func(p PhysicalVolume) bool { return p.Name == name && !p.Missing })
	if at < 0 {
		return PhysicalVolume{}, false
	}
	return r.PhysicalVolumes[at], true
}

// fields are the reported fields of each kind of row.
var fields = map[string]string{
	"vg":    "vg_name,vg_uuid,vg_systemid,vg_seqno,vg_extent_size,vg_size,vg_free,vg_tags",
	"pv":    "pv_name,pv_uuid,pe_start,pv_size,pv_free,pv_missing",
	"lv":    "lv_name,lv_uuid,lv_size,lv_attr,lv_time,lv_tags,origin,origin_size,pool_lv,data_percent,metadata_percent,lv_health_status,lv_device_open,lv_dm_path,lv_kernel_major,lv_kernel_minor",
	"pvseg": "pv_uuid,pvseg_start,pvseg_size,segtype",
	"seg":   "lv_uuid,segtype,seg_start_pe,seg_size_pe,seg_pe_ranges",
}

// rawReport is one volume group in fullreport's output.
type rawReport map[string][]map[string]string

// report reads a volume group with one command, so the result is consistent.
func (s *System) report(ctx context.Context, group string) (*Report, error) {
	arguments := []string{"fullreport", "--reportformat", "json", "--units", "b", "--nosuffix"}
	for _, kind := range []string{"vg", "pv", "lv", "pvseg", "seg"} {
		arguments = append(arguments, "--configreport", kind, "-o", fields[kind])
	}
	output, err := s.lvm(ctx, append(arguments, group)...)
	if err != nil {
		return nil, err
	}
	reports, err := reportsOf(output)
	if err != nil {
		return nil, err
	}
	for _, each := range reports {
		if len(each["vg"]) == 1 && each["vg"][0]["vg_name"] == group {
			return s.parse(each)
		}
	}
	return nil, fmt.Errorf("volume group %s: %w", group, ErrNoGroup)
}

func reportsOf(output []byte) ([]rawReport, error) {
	var answer struct{ Report []rawReport }
	if err := json.Unmarshal(output, &answer); err != nil {
		return nil, fmt.Errorf("parse the report of lvm: %w", err)
	}
	return answer.Report, nil
}

// rowsOf returns the rows of one kind in a report.
func rowsOf(output []byte, kind string) ([]map[string]string, error) {
	reports, err := reportsOf(output)
	var rows []map[string]string
	for _, each := range reports {
		rows = append(rows, each[kind]...)
	}
	return rows, err
}

// row parses the fields of a row. It keeps the first error.
type row struct {
	fields map[string]string
	err    *error
}

func (r row) text(name string) string { return r.fields[name] }

func (r row) number(name string) int64 {
	n, err := strconv.ParseInt(r.fields[name], 10, 64)
	if err != nil && *r.err == nil {
		*r.err = fmt.Errorf("parse the report of lvm: %s: %w", name, err)
	}
	return n
}

func (r row) percent(name string) float64 {
	n, err := strconv.ParseFloat(r.fields[name], 64)
	if err != nil {
		return 0 // empty if it does not apply or is unknown
	}
	return n
}

// time parses a time in LVM's default format.
func (r row) time(name string) time.Time {
	at, err := time.Parse("2006-01-02 15:04:05 -0700", r.fields[name])
	if err != nil && *r.err == nil {
		*r.err = fmt.Errorf("parse the report of lvm: %s: %w", name, err)
	}
	return at
}

func (r row) list(name string) []string {
	if r.fields[name] == "" {
		return nil
	}
	return strings.Split(r.fields[name], ",")
}

func (s *System) parse(raw rawReport) (*Report, error) {
	var err error
	vg := row{raw["vg"][0], &err}
	report := &Report{
		Name: vg.text("vg_name"), UUID: vg.text("vg_uuid"), SystemID: vg.text("vg_systemid"), Tags: vg.list("vg_tags"),
		Sequence: vg.number("vg_seqno"), ExtentSize: vg.number("vg_extent_size"), Size: vg.number("vg_size"),
		Free: vg.number("vg_free"),
	}
	for _, each := range raw["pv"] {
		report.PhysicalVolumes = append(report.PhysicalVolumes, s.parsePhysical(row{each, &err}, raw))
	}
	segments := map[string][]row{} // by the volume's UUID
	for _, each := range raw["seg"] {
		segments[each["lv_uuid"]] = append(segments[each["lv_uuid"]], row{each, &err})
	}
	for _, each := range raw["lv"] {
		report.LogicalVolumes = append(report.LogicalVolumes,
			s.parseLogical(row{each, &err}, segments[each["lv_uuid"]]))
	}
	if err != nil {
		return nil, err
	}
	return report, nil
}

func (s *System) parsePhysical(pv row, raw rawReport) PhysicalVolume {
	physical := PhysicalVolume{
		UUID: pv.text("pv_uuid"), Start: pv.number("pe_start"), Size: pv.number("pv_size"), Free: pv.number("pv_free"),
		Missing: pv.text("pv_missing") != "",
	}
	if directory, name := filepath.Split(pv.text("pv_name")); directory == s.node("")+"/" {
		physical.Name = name
	}
	for _, each := range raw["pvseg"] {
		segment := row{each, pv.err}
		if segment.text("pv_uuid") == physical.UUID && segment.text("segtype") == "free" {
			physical.Unused = append(physical.Unused,
				Extent{
					PhysicalVolume: physical.Name, Start: segment.number("pvseg_start"),
					Length: segment.number("pvseg_size"),
				})
		}
	}
	physical.Unused = mergeExtents(physical.Unused)
	return physical
}

func (s *System) parseLogical(lv row, segments []row) LogicalVolume {
	volume := LogicalVolume{
		Name: lv.text("lv_name"), UUID: lv.text("lv_uuid"), Size: lv.number("lv_size"), Tags: lv.list("lv_tags"),
		Attributes: lv.text("lv_attr"), Created: lv.time("lv_time"), Origin: lv.text("origin"),
		Pool: lv.text("pool_lv"), Health: lv.text("lv_health_status"),
		DataPercent: lv.percent("data_percent"), MetadataPercent: lv.percent("metadata_percent"),
		open: lv.text("lv_device_open") == "open", node: lv.text("lv_dm_path"),
		major: int(lv.number("lv_kernel_major")), minor: int(lv.number("lv_kernel_minor")),
	}
	volume.ReadOnly = len(volume.Attributes) > 1 && strings.ContainsRune("rR", rune(volume.Attributes[1]))
	slices.SortFunc(segments, func(a, b row) int { return int(a.number("seg_start_pe") - b.number("seg_start_pe")) })
	for _, each := range segments {
		volume.Layout = Layout(each.text("segtype"))
		volume.Extents = append(volume.Extents, s.extents(each)...)
	}
	if volume.Layout == Linear && volume.Origin != "" {
		volume.Layout, volume.Size = Snapshot, lv.number("origin_size")
	}
	volume.Extents = mergeExtents(volume.Extents)
	return volume
}

// unknownDisk is LVM's name of a missing disk.
const unknownDisk = "[unknown]"

// peRange matches a reported run of extents.
var peRange = regexp.MustCompile(`^(.*):(\d+)-(\d+)$`)

// extents returns the runs of a segment that lie on disks.
func (s *System) extents(segment row) []Extent {
	var runs []Extent
	for _, each := range strings.Fields(segment.text("seg_pe_ranges")) {
		match := peRange.FindStringSubmatch(each)
		if match == nil {
			continue
		}
		directory, name := filepath.Split(match[1])
		if match[1] == unknownDisk {
			name = ""
		} else if directory != s.node("")+"/" {
			continue // on another volume
		}
		first := row{map[string]string{"first": match[2], "last": match[3]}, segment.err}
		runs = append(runs, Extent{
			PhysicalVolume: name, Start: first.number("first"),
			Length: first.number("last") - first.number("first") + 1,
		})
	}
	return runs
}

// mergeExtents merges adjacent runs.
func mergeExtents(runs []Extent) []Extent {
	var joined []Extent
	for _, run := range runs {
		if last := len(joined) - 1; last >= 0 && joined[last].PhysicalVolume == run.PhysicalVolume &&
			joined[last].Start+joined[last].Length == run.Start {
			joined[last].Length += run.Length
			continue
		}
		joined = append(joined, run)
	}
	return joined
}
