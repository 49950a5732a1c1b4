"""Photos: reading them from whatever people have, cutting patches, drawing."""

from .reading import NO_PHOTO as NO_PHOTO
from .reading import focal as focal
from .reading import is_absence as is_absence
from .reading import is_turned as is_turned
from .reading import read as read
from .reading import read_colour as read_colour
from .reading import remembered as remembered
from .reading import shrink as shrink
from .reading import size as size
from .reading import thumbnail as thumbnail
from .reading import unshrink as unshrink
from .sources import SUFFIXES as SUFFIXES
from .sources import Content as Content
from .sources import at_hand as at_hand
from .sources import home as home
from .sources import is_url as is_url
from .sources import list_photos as list_photos
