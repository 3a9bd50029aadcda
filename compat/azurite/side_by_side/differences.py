"""Differences that are known, each with its reason: mostly the service's documentation, which Azurite does not follow there.

A difference is known if one of these has patterns for the name of its case, the fact, our value and Azurite's. One that no case has any
longer is reported, so that this list does not outlive its subject.
"""

import dataclasses
import re


@dataclasses.dataclass
class Known:
    cases: str
    fact: str
    ours: str
    theirs: str
    reason: str
    found: int = 0

    def explains(self, case, fact, ours, theirs):
        pairs = ((self.cases, case), (self.fact, fact), (self.ours, str(ours)), (self.theirs, str(theirs)))
        if not all(re.fullmatch(pattern, text) for pattern, text in pairs):
            return False
        self.found += 1
        return True


ANY = ".*"
NONE = "None"

KNOWN = [
    # Requests that are refused before anything is looked up.
    Known(".*/invalid-lease", "outcome", "400 InvalidHeaderValue", ANY, "a lease id is a GUID; Azurite takes any text"),
    Known(".*/invalid-date", "outcome", "400 InvalidHeaderValue", ANY, "a date that can't be read is refused; Azurite ignores it"),
    Known("write-snapshot/.*", "outcome", "400 InvalidQueryParameterValue", ANY, "snapshots are read-only; Azurite writes to the blob"),
    Known("acquire-without-duration/.*", "outcome", "400 MissingRequiredHeader", ANY, "Lease Blob: x-ms-lease-duration is required"),
    Known(".*", "header x-ms-error-code|body /Error/Code 1", "(InvalidHeaderValue|InvalidInput|MissingRequiredHeader|InvalidQueryParameterValue|InvalidXmlDocument|InvalidXmlNodeValue)", NONE,
          "Azurite names no code in what its generated parser refuses"),
    Known("(get|head)/.*/snapshot-invalid", "outcome", "400 InvalidQueryParameterValue", "404 BlobNotFound", "a time that can't be read is no snapshot's"),
    Known("put-block/.*/id-empty", "outcome", "400 InvalidQueryParameterValue", "201", "Put Block: blockid is required"),
    Known("acquire.*/id-invalid", "outcome", "400 InvalidHeaderValue", "201", "a lease id is a GUID"),
    Known("break.*/(long|negative)", "outcome", "400 InvalidHeaderValue", ANY, "Lease Blob: the break period is 0 to 60 seconds"),
    Known("(create-container|set-acl)/.*/public-(true|unknown)", "outcome", "400 InvalidHeaderValue", ANY, "public access is `container` or `blob`"),
    Known("set-acl/.*/six", "outcome", "400 InvalidXmlDocument", "200", "Set Container ACL: at most five policies"),
    Known("put-append/.*/tier", "outcome", "400 InvalidHeaderValue", "201", "only block blobs have a tier that is set"),
    Known("get/.*/md5-of-all", "outcome", "400 InvalidHeaderValue", "200", "Get Blob: a checksum needs a range"),
    Known("set-tags/.*/twice", "outcome", "400 DuplicateTagNames", "204", "the service's error codes have one for this"),
    Known(".*/tags-invalid", "outcome", "201", "500", "a tag may have an empty value; Azurite fails"),
    Known("put-block-list/.*/no-body", "outcome", "400 InvalidXmlDocument", "500", "Azurite fails"),
    Known("get/.*/crc64", "outcome", "206", "500 FeatureNotSupported", "Azurite does not serve it"),
    # Ranges.
    Known("get/.*/range-(suffix|invalid)", "outcome", "200", "206", "a range that can't be read is ignored, as in HTTP"),
    Known("get/.*/range-outside", "outcome", "416 InvalidRange", "206", "Get Blob: 416 for a range beyond the end"),
    # Conditions.
    Known(".*/if-none-match-any", "outcome", "412 ConditionNotMet", "20.*|409 SnapshotsPresent",
          "If-None-Match: * fails if the resource exists; Azurite ignores it for writes"),
    Known("(get-tags|block-list|set-tier|get-acl|get-container.*|head-container)/.*/if-.*", "outcome", "(304|412) ConditionNotMet", "200",
          "conditions are honoured where the service has none"),
    Known(".*container.*|set-acl/.*", "outcome", "412 ConditionNotMet", "20.*", "the same, for containers"),
    Known(".*/no-blob/if-match-any", "outcome", "412 ConditionNotMet", "201|400 InvalidBlockList", "RFC 9110, 13.1.1: `*` fails if nothing is there"),
    Known("put-block-list/uncommitted/if-.*", "outcome", "412 ConditionNotMet", "201", "the date of a blob that has only uncommitted blocks is that of the first"),
    Known("snapshot/.*", "outcome", "412 ConditionNotMet", "304 ConditionNotMet|400 UnsatisfiableCondition", "Snapshot Blob: 412 if a condition does not hold"),
    Known("copy.*/.*/source-.*", "outcome", "412 SourceConditionNotMet", "304 ConditionNotMet|400 UnsatisfiableCondition", "Copy Blob: 412 if a condition on the source does not hold"),
    Known("copy.*", "header x-ms-error-code|body /Error/Code 1", "SourceConditionNotMet", "ConditionNotMet", "the service's error code for the source"),
    Known(".*/no-blob/if-match.*", "outcome", "412 ConditionNotMet", "404 BlobNotFound", "a blob that does not exist matches no ETag, whatever the operation"),
    Known("(page-ranges|snapshot)/no-blob/if-(none-)?match-any", "outcome", "404 BlobNotFound", ANY, "conditions that only reads have, for other operations"),
    Known("(set-acl|.*container|snapshot)/.*/if-match-but-modified", "outcome", "20.", "412 ConditionNotMet", "an ETag counts more than a date"),
    Known("snapshot/.*/if-none-match-but-modified", "outcome", "412 ConditionNotMet", "201", "an ETag counts more than a date"),
    Known("(block-list|set-tier|get-tags|get-acl|get-container.*|head-container)/.*/if-none-match-any", "outcome", "400 UnsatisfiableCondition", "200",
          "conditions are honoured where the service has none"),
    # Leases.
    Known("copy-of-leased/.*/source-other-lease", "outcome", "412 LeaseIdMismatchWithBlobOperation", "202", "Copy Blob: x-ms-source-lease-id must match"),
    Known("copy/.*/source-lease", "outcome", "412 LeaseNotPresentWithBlobOperation", "202", "Copy Blob: x-ms-source-lease-id must match"),
    Known(".*", "header x-ms-error-code|body /Error/Code 1", "LeaseLost", "LeaseNotPresentWith(Blob|Container)Operation", "the service's code for a lease that has ended"),
    Known("sequence/.*", "outcome", "202", "409 LeaseNotPresentWithLeaseOperation", "only a write that makes a new version ends a broken lease"),
    Known("sequence/.*", "outcome", "412 LeaseNotPresentWithBlobOperation", "201", "a blob that does not exist has no lease"),
    Known("sequence/.*", "header x-ms-error-code|body /Error/Code 1", "LeaseIsBreakingAndCannotBeChanged", "LeaseIdMismatchWithLeaseOperation",
          "Lease Blob: nor can it if the proposed id is the present one"),
    Known(".*", "header x-ms-lease-state", "broken|available", "available|broken", "only a write that makes a new version ends a broken lease"),
    # Order of checks.
    Known("put-block-list/leased-append/.*", "outcome", "412 LeaseId.*", "409 InvalidBlobType", "the lease is checked before the kind"),
    Known("(acquire|renew|change|release|break|delete|delete-snapshotted)/uncommitted/.*", "outcome", "404 BlobNotFound", ANY,
          "a blob that has only uncommitted blocks does not exist"),
    # Kinds and tiers.
    Known("get-metadata/archived/.*", "outcome", "200", "409 BlobArchived", "properties and metadata of an archived blob can be read"),
    Known("set-tier/.*/lower", "outcome", "200", "400 AccessTierNotSupportedForBlobType", "letter case does not count"),
    Known("abort-copy/.*", "header x-ms-error-code|body /Error/Code 1", "NoPendingCopyOperation", "CopyIdMismatch", "there is no pending copy"),
    Known("(set-metadata|set-properties.*|put-block-list)/archived/.*", "outcome", "409 BlobArchived", ANY, "an archived blob can't be modified"),
    Known(".*", "header x-ms-access-tier(-inferred|-change-time)?", ANY, NONE, "Get Blob: replies with the tier, as the tests of the Go SDK expect"),
    Known("copy/.*/tier'", "header x-ms-access-tier-inferred", NONE, "true", "the tier was set"),
    # Pages.
    Known("clear-pages/.*/range-half-beyond", "outcome", "416 InvalidPageRange", "201", "Put Page: the range lies within the blob"),
    Known("put-pages/.*/md5-wrong", "outcome", "400 Md5Mismatch", "201", "Put Page: the checksum is verified"),
    Known("page-ranges/.*/previous-missing", "outcome", "409 PreviousSnapshotNotFound", "200", "the service's code; Azurite compares with nothing"),
    Known("put-page/.*/(length-.*|sequence-invalid)", "outcome", "400 InvalidHeaderValue", "201", "Put Blob: 0 to 8 TiB, and 0 to 2^63 - 1"),
    Known("(put|clear)-pages/.*lease", "outcome", "409 InvalidBlobType", "412 Lease.*", "the kind is checked before the lease"),
    Known("block-list/leased-.*", "outcome", "409 InvalidBlobType", "412 LeaseId.*", "the kind is checked before the lease"),
    Known("(page-ranges|put-block-list)/.*", "outcome", "412 Lease.*", "409 InvalidBlobType", "the lease is checked before the kind"),
    Known("set-properties/block/(length|sequence)", "outcome", "409 InvalidBlobType", "400 InvalidOperation", "the service's code for another kind of blob"),
    Known("set-properties/.*/md5-invalid", "outcome", "400 InvalidMd5", "200", "the service's code for a checksum"),
    Known(".*", "header x-ms-error-code|body /Error/Code 1", "Invalid(Page)?Range", "Requested Range Not Satisfiable", "a code without spaces"),
    Known("page-ranges/.*/range", "body /PageList/PageRange/End 1", "1023", "600", "Get Page Ranges: whole pages, as the tests of the Go SDK expect"),
    Known("page-ranges/.*/range-outside", "header content-range", "bytes ./2048", NONE, "HTTP: 416 says how long the blob is"),
    Known(".*page.*", "header accept-ranges", "bytes", NONE, "ranges can be read of every blob"),
    # What a reply says of a blob.
    Known(".*", "header x-ms-blob-content-md5", NONE, ANY, "Get Blob: only in replies to a range"),
    Known(".*", "header x-ms-access-tier-change-time|body /EnumerationResults/Blobs/Blob/Properties/AccessTierChangeTime .*", NONE, "<date>", "only if the tier was set"),
    Known(".*", "header x-ms-access-tier-inferred", NONE, "false", "only if the tier is inferred"),
    Known(".*", "header x-ms-blob-sealed|body /EnumerationResults/Blobs/Blob/Properties/Sealed .*", NONE, "false", "only if the blob is sealed"),
    Known(".*", "header x-ms-incremental-copy", NONE, "false", "only for incremental copies"),
    Known(".*", "header x-ms-content-crc64", ANY, NONE, "Put Blob, Put Block and Append Block reply with it"),
    Known("(set-properties|snapshot|clear-pages|sequence).*", "header x-ms-request-server-encrypted", "true", NONE, "every write is encrypted alike"),
    Known(".*", "header content-md5", NONE, ANY, "a blob of blocks or appended blocks has no checksum unless its writer gave one"),
    Known("put-block/.*/md5", "header content-md5", ANY, NONE, "Put Block: replies with the checksum of the request"),
    Known("get-metadata/.*", "body|header content-length", ANY, ANY, "Get Blob Metadata has no body; Azurite sends the content"),
    Known("put/.*/content-encoding'*", "header content-(encoding|language)", ANY, NONE, "Put Blob: the plain headers count as well"),
    Known("get/.*/response-headers", "header .*", ANY, ANY, "only a signature overrides headers"),
    # Codes.
    Known(".*", "header x-ms-error-code|body /Error/Code 1", "Md5Mismatch|InvalidMd5|InvalidHeaderValue|MissingRequiredHeader", "InvalidOperation", "the service has a code for each"),
    Known("put-block/.*/id-long", "header x-ms-error-code|body /Error/Code 1", "InvalidBlobOrBlock", "OutOfRangeInput", "the service's code for ids of blocks"),
    Known("put-block-list/.*", "header x-ms-error-code|body /Error/Code 1", "InvalidXmlDocument|InvalidHeaderValue", "InvalidBlockList", "the document is no block list; the date is looked at first"),
    Known(".*/(unknown|premium|premium-tier|tier)", "header x-ms-error-code|body /Error/Code 1", "InvalidHeaderValue", "AccessTierNotSupportedForBlobType", "the value is no tier"),
    # Listings.
    Known("list/.*", "body /EnumerationResults/Blobs/Blob/Properties/(Content-(Encoding|Language|Disposition|MD5)|Cache-Control) .*", "(|None)", "(|None)", "List Blobs: empty elements"),
    Known("list/.*", "body /EnumerationResults/Blobs/Blob/Properties/Content-MD5 .*", ANY, ANY, "checksums, as above, and their numbers in this report"),
    Known("list/.*", "body /EnumerationResults/Blobs/Blob/Metadata .*", "", NONE, "List Blobs: an empty element"),
    Known("list/.*", "body /EnumerationResults/NextMarker 1", ANY, ANY, "a marker is opaque"),
    Known("list/.*/delimiter-long", "body /EnumerationResults/Blobs/BlobPrefix/Name 1", "a/c", "a/", "Azurite takes the first character of a delimiter"),
    Known("list/.*/(uncommitted|all)", "body /EnumerationResults/Blobs/Blob/Properties/Etag .*", NONE, "<tag>", "List Blobs: an uncommitted blob has none"),
    Known("block-list/.*", "body /BlockList/(Un)?[cC]ommittedBlocks 1", NONE, "", "only the lists that were asked for"),
    Known("block-list/uncommitted/.*", "header (etag|last-modified)", NONE, ANY, "Get Block List: only of a committed blob"),
]


def reason(case, fact, ours, theirs):
    """The first known difference that this is, if it is one."""
    return next((known for known in KNOWN if known.explains(case, fact, ours, theirs)), None)
