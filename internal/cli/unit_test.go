package cli

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"galgo"
)

func runtimeVersion() string { return runtime.Version() }

func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(math.Exp(rng.Float64() * 20))
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
		if got := h.quantile(q); got < want || float64(got) > float64(want)*(1+1.0/perPower)+1 {
			t.Errorf("quantile %v is %v, want %v or at most 1/%d more", q, got, want, perPower)
		}
	}
	if h.max != all[len(all)-1] || h.count != 10_000 {
		t.Errorf("max %v of %d, want %v of 10000", h.max, h.count, all[len(all)-1])
	}
	if (&histogram{}).quantile(0.5) != 0 || (&histogram{}).mean() != 0 {
		t.Error("an empty histogram has quantiles")
	}
}

func TestHistogramBucketsAreInOrder(t *testing.T) {
	for _, ns := range []uint64{0, 1, 127, 128, 129, 255, 256, 1 << 20, 1<<40 + 12345, 1<<63 - 1} {
		i := bucketOf(ns)
		if i < 0 || i >= bucketCount || bucketTop(i) < ns || i > 0 && bucketTop(i-1) >= ns {
			t.Errorf("%d ns is in bucket %d of %d, which ends at %d", ns, i, bucketCount, bucketTop(i))
		}
	}
}

func TestQuota(t *testing.T) {
	q := newQuota(25)
	var got []int
	for range 5 {
		got = append(got, q.take(10))
	}
	if want := []int{10, 10, 5, 0, 0}; !slices.Equal(got, want) {
		t.Fatalf("took %v of 25, want %v", got, want)
	}
}

func TestPartitionsAreShared(t *testing.T) {
	for _, tc := range []struct {
		clients    int
		partitions uint32
		want       [][]uint32
	}{
		{2, 5, [][]uint32{{0, 2, 4}, {1, 3}}},
		{3, 2, [][]uint32{{0}, {1}, {0}}},
	} {
		b := bench{f: &benchFlags{clients: tc.clients, partitions: tc.partitions}}
		for i, want := range tc.want {
			if got := b.partitionsOf(i); !slices.Equal(got, want) {
				t.Errorf("client %d of %d has partitions %v of %d, want %v", i, tc.clients, got, tc.partitions, want)
			}
		}
	}
}

func TestParseHeader(t *testing.T) {
	for s, want := range map[string]galgo.Value{
		"k:string:a:b": galgo.StringValue("a:b"), "k:int8:-1": galgo.Int8Value(-1), "k:uint64:7": galgo.Uint64Value(7),
		"k:bool:true": galgo.BoolValue(true), "k:float64:1.5": galgo.Float64Value(1.5), "k:raw:x": galgo.RawValue([]byte("x")),
	} {
		if h, err := parseHeader(s); err != nil || h.Value.Kind != want.Kind || string(h.Value.Data) != string(want.Data) || h.Key.String() != "k" {
			t.Errorf("%s is %v, %v, want %v", s, h, err, want)
		}
	}
	for _, s := range []string{"", "k", "k:string", ":string:x", "k:int8:300", "k:nothing:1", "k:uint8:-1"} {
		if h, err := parseHeader(s); err == nil {
			t.Errorf("%q is %v, want an error", s, h)
		}
	}
}

func TestDurations(t *testing.T) {
	for µs, want := range map[uint64]string{0: "0s", 1_500_000: "1.5s", galgo.Never: "never", 1 << 60: "1152921504606846976µs"} {
		if got := durationOf(µs); got != want {
			t.Errorf("%d µs is %s, want %s", µs, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[31m\n\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range printable(s) {
			if r < ' ' || r == 0x7f || r == 0x9b {
				t.Fatalf("%q prints as %q", s, printable(s))
			}
		}
	})
}

// The flags by which programs are asked for their version work beside the command,
// also where galgo stands in for the reference's server.
func TestVersionFlag(t *testing.T) {
	for _, args := range [][]string{{"galgo", "--version"}, {"galgo", "-V"}, {"iggy-server", "--version"}, {"galgo", "version"}} {
		var out, talk strings.Builder
		status := Run(t.Context(), Program{Args: args, Stdout: &out, Stderr: &talk})
		if status != 0 || !strings.Contains(out.String(), Version) {
			t.Errorf("%q: status %d, printed %q %q", args, status, out.String(), talk.String())
		}
	}
}
