package config

// Keys that do nothing yet, with the defaults of the reference server. When a
// part arrives, its rows become active ones: a field in Config, bounds, a better
// help, and no class and part.

// Parts, as they are named in errors and tables.
const (
	partTLS        = "TLS"
	partHTTP       = "the HTTP interface"
	partTelemetry  = "telemetry export"
	partOwnLayout  = "a layout of the data directory that galgo does not use"
	partOwnMemory  = "a memory pool that galgo does not use; see system.memory_budget"
	partOwnShards  = "a scheduler that galgo does not use; see system.shards"
	partOwnBuffers = "buffers that galgo does not have: frames go through the connection's own"
	partOwnBus     = "a message bus that galgo does not use"
	partOwnRepair  = "repair and links between nodes, whose bounds galgo has fixed"
)

var serviceKeys = []key{
	{name: "http.max_request_size", def: "2 MB", at: noSize, class: later, part: partHTTP},
	{name: "http.web_ui", def: "false", at: noBool, class: later, part: partHTTP},
	{name: "http.cors.enabled", def: "true", at: noBool, class: later, part: partHTTP},
	{name: "http.cors.allowed_methods", def: "[GET, POST, PUT, DELETE]", at: noList, class: later, part: partHTTP},
	{name: "http.cors.allowed_origins", def: "[*]", at: noList, class: later, part: partHTTP},
	{name: "http.cors.allowed_headers", def: "[content-type, authorization]", at: noList, class: later, part: partHTTP},
	{name: "http.cors.exposed_headers", def: "[iggy-view]", at: noList, class: later, part: partHTTP},
	{name: "http.cors.allow_credentials", def: "false", at: noBool, class: later, part: partHTTP},
	{name: "http.cors.allow_private_network", def: "false", at: noBool, class: later, part: partHTTP},
	{name: "http.jwt.algorithm", def: "HS256", at: noString, class: later, part: partHTTP},
	{name: "http.jwt.issuer", def: "iggy.apache.org", at: noString, class: later, part: partHTTP},
	{name: "http.jwt.audience", def: "iggy.apache.org", at: noString, class: later, part: partHTTP},
	{name: "http.jwt.valid_issuers", def: "[iggy.apache.org]", at: noList, class: later, part: partHTTP},
	{name: "http.jwt.valid_audiences", def: "[iggy.apache.org]", at: noList, class: later, part: partHTTP},
	{name: "http.jwt.access_token_expiry", def: "1h", at: noExpiry, class: later, part: partHTTP},
	{name: "http.jwt.clock_skew", def: "5s", at: noDuration, class: later, part: partHTTP},
	{name: "http.jwt.not_before", def: "0s", at: noDuration, class: later, part: partHTTP},
	{name: "http.jwt.encoding_secret", def: "", at: noString, class: later, part: partHTTP, secret: true},
	{name: "http.jwt.decoding_secret", def: "", at: noString, class: later, part: partHTTP, secret: true},
	{name: "http.jwt.use_base64_secret", def: "false", at: noBool, class: later, part: partHTTP},
	{name: "http.jwt.trusted_issuers", def: "[]", at: noList, class: later, part: partHTTP},
	{name: "http.metrics.enabled", def: "true", at: noBool, class: later, part: partHTTP},
	{name: "http.metrics.endpoint", def: "/metrics", at: noString, class: later, part: partHTTP},
	{name: "http.tls.enabled", def: "false", at: noBool, class: later, part: partTLS},
	{name: "http.tls.cert_file", def: "", at: noString, class: idle, part: partTLS},
	{name: "http.tls.key_file", def: "", at: noString, class: idle, part: partTLS},

	{name: "quic.send_window", def: "64 MiB", at: noSize, class: idle, part: "a send buffer that galgo's QUIC does not have"},

	{name: "websocket.read_buffer_size", def: "128 KiB", at: noSize, class: idle, part: partOwnBuffers},
	{name: "websocket.write_buffer_size", def: "128 KiB", at: noSize, class: idle, part: partOwnBuffers},
	{name: "websocket.max_write_buffer_size", def: "unlimited", at: noSize, class: idle, part: partOwnBuffers},
	{name: "websocket.max_frame_size", def: "16 MiB", at: noSize, class: idle, part: "a reader of whole fragments; galgo reads them piece by piece, see websocket.max_message_size"},
	{name: "websocket.accept_unmasked_frames", def: "false", at: noBool, class: later, part: "breaking the rules of WebSocket"},

	{name: "telemetry.enabled", def: "false", at: noBool, class: later, part: partTelemetry},
	{name: "telemetry.service_name", def: "iggy", at: noString, class: idle, part: partTelemetry},
	{name: "telemetry.logs.transport", def: "grpc", at: noString, class: idle, part: partTelemetry},
	{name: "telemetry.logs.endpoint", def: "http://localhost:7281/v1/logs", at: noString, class: idle, part: partTelemetry},
	{name: "telemetry.traces.transport", def: "grpc", at: noString, class: idle, part: partTelemetry},
	{name: "telemetry.traces.endpoint", def: "http://localhost:7281/v1/traces", at: noString, class: idle, part: partTelemetry},

	{name: "system.stream.path", def: "streams", at: noString, class: idle, part: partOwnLayout},
	{name: "system.topic.path", def: "topics", at: noString, class: idle, part: partOwnLayout},
	{name: "system.partition.path", def: "partitions", at: noString, class: idle, part: partOwnLayout},
	{name: "system.partition.validate_checksum", def: "true", at: noBool, class: later, part: "reading without checking checksums"},
	{name: "system.segment.archive_expired", def: "false", at: noBool, class: later, part: "archiving of expired segments"},
	{name: "system.recovery.recreate_missing_state", def: "false", at: noBool, class: later, part: "making up state that is missing"},
	{name: "system.memory_pool.enabled", def: "true", at: noBool, class: idle, part: partOwnMemory},
	{name: "system.memory_pool.size", def: "4 GiB", at: noSize, class: idle, part: partOwnMemory},
	{name: "system.memory_pool.bucket_capacity", def: "8192", at: noInt, class: idle, part: partOwnMemory},
	{name: "system.sharding.cpu_allocation", def: "numa:auto", at: noString, class: idle, part: partOwnShards},
	{name: "system.sharding.pin_cores", def: "true", at: noBool, class: idle, part: partOwnShards},
	{name: "system.sharding.inbox_capacity", def: "1024", at: noInt, class: idle, part: partOwnShards},
	{name: "system.sharding.reply_inbox_capacity", def: "1024", at: noInt, class: idle, part: partOwnShards},
	{name: "system.sharding.shutdown_drain_timeout", def: "10s", at: noDuration, class: idle, part: "a scheduler that galgo does not use; see shutdown_timeout"},
	{name: "system.sharding.shutdown_poll_interval", def: "50ms", at: noDuration, class: idle, part: partOwnShards},
	{name: "system.sharding.shutdown_join_timeout", def: "30s", at: noDuration, class: idle, part: "a scheduler that galgo does not use; see shutdown_timeout"},
	{name: "system.sharding.reconcile_periodic_interval", def: "1s", at: noDuration, class: idle, part: partOwnShards},

	{name: "partition.evicted_ring_capacity", def: "4096", at: noInt, class: idle, part: partOwnRepair},
	{name: "partition.evicted_ring_bytes_max", def: "16 MiB", at: noSize, class: idle, part: partOwnRepair},
	{name: "partition.transfer_served_cache_bytes_max", def: "2176 MiB", at: noSize, class: idle, part: partOwnRepair},
	{name: "partition.transfer_artifact_bytes_max", def: "1088 MiB", at: noSize, class: idle, part: partOwnRepair},
	{name: "message_bus.max_batch", def: "256", at: noInt, class: idle, part: partOwnBus},
	{name: "message_bus.peer_queue_capacity", def: "256", at: noInt, class: idle, part: partOwnRepair},
	{name: "message_bus.reconnect_period", def: "5s", at: noDuration, class: idle, part: partOwnRepair},
	{name: "message_bus.close_peer_timeout", def: "2s", at: noDuration, class: idle, part: partOwnRepair},
	{name: "message_bus.close_grace", def: "2s", at: noDuration, class: idle, part: partOwnRepair},
}
