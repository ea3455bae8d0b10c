package partition

import (
	"reflect"
	"strings"
	"testing"

	"galgo/internal/cipher"
	"galgo/internal/disk/memdisk"
)

func TestInspectSegment(t *testing.T) {
	r, d := settledRig(t)
	seg := r.m.segments[1]
	records := 0
	report, err := InspectSegment(d, seg.logName, nil, func(i RecordInfo) { records++ })
	want := SegmentReport{
		SegmentName: SegmentName{Base: seg.base}, File: seg.logName, Size: seg.size, Sound: seg.size, Partition: testPartition,
		Records: uint64(records), Messages: seg.messages(), Last: seg.last,
		FirstTime: report.FirstTime, LastTime: seg.time, IndexEntries: int(seg.entries()), Keys: map[cipher.ID]uint64{{}: uint64(records)},
	}
	if err != nil || !reflect.DeepEqual(report, want) || records < 2 {
		t.Fatalf("report %+v, %v\nwant %+v", report, err, want)
	}
	good := d.Bytes(seg.logName)
	spoil := func(what string, log []byte, check func(SegmentReport) bool) {
		t.Helper()
		left := d.Clone()
		left.Put(seg.logName, log)
		before := left.Clone()
		report, err := InspectSegment(left, seg.logName, nil, nil)
		if err != nil || !check(report) {
			t.Fatalf("%s: %+v, %v", what, report, err)
		}
		if diff := memdisk.Diff(before, left); diff != "" {
			t.Fatalf("%s: the look changed the disk: %s", what, diff)
		}
	}
	spoil("cut", good[:len(good)-1], func(r SegmentReport) bool {
		return r.Problem != nil && r.Sound < r.Size && strings.Contains(r.Problem.Error(), seg.logName)
	})
	spoil("garbage behind", append(append([]byte{}, good...), 1, 2, 3), func(r SegmentReport) bool { return r.Problem != nil && r.Sound == seg.size })
	spoil("zeros behind", append(append([]byte{}, good...), make([]byte, 9000)...), func(r SegmentReport) bool {
		return r.Problem == nil && r.Zeros && r.Sound == seg.size
	})
	flipped := append([]byte{}, good...)
	flipped[300] ^= 1
	spoil("flipped", flipped, func(r SegmentReport) bool { return r.Problem != nil && r.Sound == 0 && r.IndexProblem != "" })
	spoil("empty", nil, func(r SegmentReport) bool { return r.Problem == nil && r.Records == 0 })

	index := d.Bytes(seg.indexName)
	for what, b := range map[string][]byte{"index cut": index[:len(index)-3], "index of another": d.Bytes(r.m.segments[0].indexName), "index empty": nil} {
		d.Put(seg.indexName, b)
		if report, err := InspectSegment(d, seg.logName, nil, nil); err != nil || report.IndexProblem == "" || report.Problem != nil {
			t.Fatalf("%s: %+v, %v", what, report, err)
		}
	}
	d.Delete(seg.indexName)
	if report, err := InspectSegment(d, seg.logName, nil, nil); err != nil || report.IndexProblem == "" {
		t.Fatalf("index missing: %+v, %v", report, err)
	}
	if _, err := InspectSegment(d, seg.indexName, nil, nil); err == nil {
		t.Fatal("an index was taken for a log")
	}
}
